//go:build cgo && linux

package conformance_test

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/conformance/internal/relay"
	"github.com/go-handoff/handoff/conformance/rules"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cptr"
)

// TestEveryGoCheckCanFail: each rule that the Go half looks at has a target that
// breaks it on purpose, and that is reported.
func TestEveryGoCheckCanFail(t *testing.T) {
	list := mutants()
	for _, rule := range rules.All() {
		if !conformance.InGo(rule.ID) {
			require.NotContains(t, list, rule.ID, "no check looks at it")
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			target, ok := list[rule.ID]
			require.True(t, ok, "no target breaks the rule")
			results, err := conformance.CheckGo(target(t))
			require.NoError(t, err)
			reported(t, results, rule.ID)
		})
	}
}

func reported(t *testing.T, results []conformance.Result, rule string) {
	t.Helper()
	for _, r := range results {
		if r.Rule == rule {
			require.Truef(t, r.Status.Bad(), "%s was broken on purpose and is %s", rule, r.Status)
			return
		}
	}
	t.Errorf("%s was not looked at", rule)
}

// mutants are targets that break a rule each.
func mutants() map[string]func(*testing.T) any {
	m := map[string]func(*testing.T) any{}
	for _, rule := range []string{
		"R001", "R002", "R003", "R004", "R005", "R006", "R007", "R013", "R017", "R019", "R021", "R024", "R036", "R037",
		"R043", "R049", "R056", "R057", "R070", "R084", "R116", "R117", "R118", "R119", "R128", "R129", "R132", "R133",
		"R134", "R135", "R143", "R144", "R149", "R150", "R151", "R152", "R154", "R155",
	} {
		m[rule] = func(t *testing.T) any { return brokenProducer(t, rule) }
	}
	consumer := func(f func(dlpack.Capsule) (io.Closer, error)) func(*testing.T) any {
		return func(*testing.T) any { return conformance.Consumer(f) }
	}
	for _, rule := range []string{"R008", "R011", "R012", "R022", "R023", "R026", "R027", "R029", "R034", "R045", "R047"} {
		// Takes everything and looks at nothing.
		m[rule] = consumer(func(c dlpack.Capsule) (io.Closer, error) { return closer(c.Close), nil })
	}
	for _, rule := range []string{"R010", "R042", "R044", "R046", "R050", "R060", "R067"} {
		// Refuses everything, and gives nothing back.
		m[rule] = consumer(func(dlpack.Capsule) (io.Closer, error) { return nil, dlpack.ErrNotSupported })
	}
	// Copies the struct, and gives the copy back.
	m["R061"] = consumer(func(c dlpack.Capsule) (io.Closer, error) {
		twin := relay.TwinOf(c.Addr)
		return closer(dlpack.Capsule{Addr: twin, Versioned: true}.Close), nil
	})
	n := uintptr(0x1000_0000)
	m["R262"] = func(*testing.T) any { return like(func() (int, uintptr) { return 1, 1 }) }
	m["R271"] = func(*testing.T) any { return like(func() (int, uintptr) { n++; return 0, n }) }
	m["R263"] = func(*testing.T) any { return like(func() (int, uintptr) { return 0, 77 }) }
	for rule, a := range map[string]cai.Array{
		"R169": {Version: 3, Shape: []int64{0, -3}},
		"R170": {Version: 3, Shape: []int64{2}, Typestr: cai.Typestr{Order: '<', Kind: 'Q', Size: 4}, Data: 64},
		"R172": {Version: 3, Shape: []int64{2}, Typestr: f4},
		"R173": {Version: 3, Shape: []int64{0}, Typestr: f4, Data: 64},
		"R178": {Version: 3, Shape: []int64{2, 3}, Typestr: f4, Data: 64, Strides: []int64{4}},
		"R197": {Version: -1, Shape: []int64{2}, Typestr: f4, Data: 64},
		"R287": {Version: 3, Shape: []int64{0}, Typestr: f4, Data: 64},
	} {
		m[rule] = func(*testing.T) any { return describes{Array: a} }
	}
	m["R199"] = func(*testing.T) any { return describes{err: io.EOF} }
	for _, rule := range []string{"R176", "R280", "R283"} {
		m[rule] = func(t *testing.T) any { return both(t, rule) }
	}
	for _, rule := range []string{"R184", "R187", "R284"} {
		m[rule] = func(*testing.T) any {
			return conformance.Translate(func(any) (any, error) { return int64(0), nil })
		}
	}
	orderMutants(m)
	return m
}

var f4 = cai.Typestr{Order: '<', Kind: 'f', Size: 4}

func brokenProducer(t *testing.T, rule string) dlpack.Producer {
	t.Helper()
	opts := &dlpack.ExportOptions{}
	if rule == "R057" {
		opts.Flags = dlpack.FlagReadOnly
	}
	e, err := dlpack.ExportSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return &broken{Producer: e, rule: rule}
}

// broken is a producer that does one thing wrong.
type broken struct {
	dlpack.Producer
	rule string
	last dlpack.Capsule
}

// at returns a field of a versioned struct, by its offset.
func at[T any](c dlpack.Capsule, offset uintptr) *T { return cptr.To[T](c.Addr + offset) }

func (b *broken) DLPackDevice() (dlpack.Device, error) {
	switch b.rule {
	case "R155", "R143":
		return dlpack.Device{Type: dlpack.DeviceCUDAHost}, nil
	case "R128", "R129":
		return dlpack.Device{Type: dlpack.DeviceCUDA}, nil
	case "R133", "R134":
		return dlpack.Device{Type: dlpack.DeviceROCM}, nil
	case "R154":
		return dlpack.Device{}, io.EOF
	}
	return b.Producer.DLPackDevice()
}

func (b *broken) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	n, given := r.Stream.Int64()
	elsewhere := slices.Contains([]string{"R128", "R129", "R133", "R134"}, b.rule)
	switch {
	case b.rule == "R132" && n == -2, b.rule == "R135" && n > 0:
		r.Stream = dlpack.StreamArg{}
	case b.rule == "R144" && r.Device.Type == dlpack.DeviceVulkan:
		r.Device = dlpack.Device{}
	case b.rule == "R117" && r.MaxVersion.Minor >= 3:
		r.MaxVersion = dlpack.Version{}
	case b.rule == "R118" && r.MaxVersion == dlpack.Version{Major: 1}:
		r.MaxVersion = dlpack.Version{}
	case b.rule == "R119" && r.MaxVersion == dlpack.Version{Minor: 8}, (b.rule == "R084" || b.rule == "R116") && r.MaxVersion == dlpack.Version{}:
		r.MaxVersion = dlpack.ABIVersion
	case b.rule == "R150" && r.Copy == dlpack.CopyAlways:
		r.Copy = dlpack.CopyIfNeeded
	case b.rule == "R151" && r.Copy == dlpack.CopyNever, b.rule == "R152" && r.Copy == dlpack.CopyIfNeeded:
		r.Copy = dlpack.CopyAlways
	case b.rule == "R129" && given && n == 1, b.rule == "R133" && given && n == 0:
		return dlpack.Capsule{}, dlpack.ErrNotSupported
	case b.rule == "R057" && r.MaxVersion.Major == 0:
		// The same memory, as if it could be written.
		e, err := dlpack.ExportSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil, nil)
		if err != nil {
			return dlpack.Capsule{}, err
		}
		defer e.Close()
		return e.DLPack(r)
	}
	if b.rule == "R155" || b.rule == "R143" || elsewhere {
		r.Stream = dlpack.StreamArg{}
	}
	c, err := b.Producer.DLPack(r)
	if err != nil || !c.Versioned || given && b.rule != "R155" && !elsewhere {
		if err == nil && !c.Versioned && b.rule == "R002" {
			*at[uint16](c, 22) = 0
		}
		return c, err
	}
	// The copy is not freed: the checks may look at it after its release.
	copied := relay.New(c.Addr)
	c.Addr = copied.Addr()
	switch b.rule {
	case "R001":
		*at[int32](c, 48) = 1000
	case "R003":
		*at[uint32](c, 4) = 500
	case "R006":
		*at[uint32](c, 0) = 3
	case "R004":
		*at[int32](c, 40) = 99
	case "R005":
		*at[uint8](c, 52) = 200
	case "R007":
		*at[uint32](c, 4), *at[uint8](c, 52), *at[uint8](c, 53) = 0, 10, 8
	case "R013":
		*at[uint64](c, 24) |= 1 << 30
	case "R017":
		*at[uint64](c, 24) &^= 2
	case "R152":
		if r.Copy == dlpack.CopyAlways {
			*at[uint64](c, 24) &^= 2
		}
	case "R019":
		*at[uint64](c, 24) |= 2
	case "R021":
		*at[uint64](c, 24) |= 4
	case "R024":
		*at[uint8](c, 52) = 6
	case "R036":
		*at[int32](c, 44) = 1
	case "R037":
		*at[int32](c, 40), *at[int32](c, 44) = 2, -1
	case "R043":
		*at[int64](dlpack.Capsule{Addr: *at[uintptr](c, 56)}, 0) = 0
	case "R049":
		*at[uintptr](c, 64) = 0
	case "R056":
		if b.last.Addr != 0 {
			copied.Scribble(*at[uintptr](b.last, 56)) // its deleter writes to the shape of the one before
		}
		b.last = c
	case "R149":
		if r.Device != (dlpack.Device{}) {
			*at[int32](c, 40) = 3
		}
	case "R070":
		if b.last.Addr != 0 {
			return b.last, c.Close()
		}
		b.last = c
	}
	return c, nil
}

// both is memory on the host that two protocols describe, not in one voice.
func both(t *testing.T, rule string) any {
	t.Helper()
	p := &broken{}
	e, err := dlpack.ExportSlice([]float32{1, 2, 3}, nil, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	p.Producer = e
	c, err := e.DLPack(dlpack.Request{MaxVersion: dlpack.ABIVersion})
	require.NoError(t, err)
	data := *at[uintptr](c, 32)
	require.NoError(t, c.Close())
	a := cai.Array{Version: 3, Shape: []int64{3}, Typestr: f4, Data: data, ReadOnly: rule != "R283"}
	if rule == "R283" {
		a.Data += 4
	}
	return struct {
		dlpack.Producer
		describes
	}{p, describes{Array: a}}
}

type like func() (int, uintptr)

func (l like) CUDAStream() (int, uintptr) { return l() }

type describes struct {
	cai.Array
	err error
}

func (d describes) CUDAArrayInterface() (cai.Interface, error) {
	return cai.Interface{Array: d.Array}, d.err
}
