//go:build cgo && linux

package main

import "github.com/go-handoff/handoff/device/soft"

// The kernels that the library brings, for programs that can bring none of their own. An
// image names them ("handoff-soft-image 1", "kernel saxpy").
func init() {
	for _, k := range []struct {
		name   string
		params []soft.ParamInfo
		fn     func(*soft.Launch)
	}{
		{"nop", nil, func(*soft.Launch) {}},
		{"args", []soft.ParamInfo{soft.Ptr, soft.Int32}, func(*soft.Launch) {}},
		// fill(p, n, value): p[i] = value
		{"fill", []soft.ParamInfo{soft.Ptr, soft.Int64, soft.Float32}, func(l *soft.Launch) {
			v := float32(l.Float64(2))
			for i, p := 0, soft.Slice[float32](l, l.Ptr(0), int(l.Int64(1))); i < len(p); i++ {
				p[i] = v
			}
		}},
		// saxpy(n, a, x, y): y[i] += a*x[i]
		{"saxpy", []soft.ParamInfo{soft.Int64, soft.Float32, soft.Ptr, soft.Ptr}, func(l *soft.Launch) {
			n, a := int(l.Int64(0)), float32(l.Float64(1))
			x, y := soft.Slice[float32](l, l.Ptr(2), n), soft.Slice[float32](l, l.Ptr(3), n)
			for i := range y {
				y[i] += a * x[i]
			}
		}},
	} {
		if err := soft.RegisterKernel(k.name, k.params, k.fn); err != nil {
			panic(err)
		}
	}
}
