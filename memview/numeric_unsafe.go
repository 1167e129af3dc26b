package memview

import (
	"math"
	"runtime"
	"unsafe"

	"github.com/x448/float16"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
)

// numberKind tells which field of a number holds its value.
type numberKind uint8

const (
	noNumber numberKind = iota
	boolNumber
	intNumber  // i
	uintNumber // u
	floatNumber
	complexNumber
)

// number is an element of any numeric dtype.
type number struct {
	kind numberKind
	i    int64
	u    uint64
	f    float64
	c    complex128
	bits int // precision of the parts when printed: 32 or 64
}

// numberAt reads the element at an offset from p. The kind is noNumber for
// dtypes that have none: several lanes, opaque handles, odd widths.
func (v *StridedMemoryView) numberAt(p unsafe.Pointer, off int64) number {
	if v.dtype.Lanes != 1 {
		return number{}
	}
	bits := v.dtype.Bits
	if bits < 8 {
		// SAFETY: loadBits stays within the element.
		return smallNumber(v.dtype, loadBits(p, off*int64(v.layout.width), uint(bits)))
	}
	// SAFETY: an element of the array, see Layout.
	p = unsafe.Add(p, off*int64(v.layout.width/8))
	var u uint64
	switch bits {
	case 8:
		u = uint64(*(*uint8)(p)) // SAFETY: as above, and in the lines below.
	case 16:
		u = uint64(loadAny[uint16](p))
	case 32:
		u = uint64(loadAny[uint32](p))
	case 64:
		u = loadAny[uint64](p)
	case 128:
		if v.dtype.Code == dlpack.CodeComplex {
			w := loadAny[[2]uint64](p)
			return number{kind: complexNumber, bits: 64, c: complex(math.Float64frombits(w[0]), math.Float64frombits(w[1]))}
		}
		return number{}
	default:
		return number{}
	}
	switch v.dtype.Code {
	case dlpack.CodeInt:
		shift := 64 - uint(bits)
		return number{kind: intNumber, i: int64(u<<shift) >> shift}
	case dlpack.CodeUInt:
		return number{kind: uintNumber, u: u}
	case dlpack.CodeBool:
		if u != 0 {
			u = 1
		}
		return number{kind: boolNumber, u: u}
	case dlpack.CodeFloat:
		switch bits {
		case 16:
			return float32Number(float16.Frombits(uint16(u)).Float32())
		case 32:
			return float32Number(math.Float32frombits(uint32(u)))
		case 64:
			return number{kind: floatNumber, bits: 64, f: math.Float64frombits(u)}
		}
	case dlpack.CodeBfloat:
		return float32Number(minifloat.BFloat16(u).Float32())
	case dlpack.CodeComplex, dlpack.CodeBcomplex:
		// The parts are adjacent in memory, real part first (R025).
		switch {
		case bits == 64:
			w := loadAny[[2]uint32](p)
			return complex64Number(complex(math.Float32frombits(w[0]), math.Float32frombits(w[1])))
		case bits == 32 && v.dtype.Code == dlpack.CodeComplex:
			w := loadAny[[2]uint16](p)
			return complex64Number(complex(float16.Frombits(w[0]).Float32(), float16.Frombits(w[1]).Float32()))
		case bits == 32:
			w := loadAny[[2]uint16](p)
			return complex64Number(complex(minifloat.BFloat16(w[0]).Float32(), minifloat.BFloat16(w[1]).Float32()))
		}
	case dlpack.CodeOpaqueHandle:
	default:
		return smallNumber(v.dtype, uint8(u))
	}
	return number{}
}

// smallNumber decodes the types of at most 8 bits.
func smallNumber(dt dlpack.DataType, u uint8) number {
	switch dt.Code {
	case dlpack.CodeInt:
		shift := 8 - dt.Bits
		return number{kind: intNumber, i: int64(int8(u<<shift) >> shift)}
	case dlpack.CodeUInt:
		return number{kind: uintNumber, u: uint64(u)}
	case dlpack.CodeFloat8E3M4:
		return float32Number(minifloat.Float8E3M4(u).Float32())
	case dlpack.CodeFloat8E4M3:
		return float32Number(minifloat.Float8E4M3(u).Float32())
	case dlpack.CodeFloat8E4M3B11FNUZ:
		return float32Number(minifloat.Float8E4M3B11FNUZ(u).Float32())
	case dlpack.CodeFloat8E4M3FN:
		return float32Number(minifloat.Float8E4M3FN(u).Float32())
	case dlpack.CodeFloat8E4M3FNUZ:
		return float32Number(minifloat.Float8E4M3FNUZ(u).Float32())
	case dlpack.CodeFloat8E5M2:
		return float32Number(minifloat.Float8E5M2(u).Float32())
	case dlpack.CodeFloat8E5M2FNUZ:
		return float32Number(minifloat.Float8E5M2FNUZ(u).Float32())
	case dlpack.CodeFloat8E8M0FNU:
		return float32Number(minifloat.Float8E8M0FNU(u).Float32())
	case dlpack.CodeFloat6E2M3FN:
		return float32Number(minifloat.Float6E2M3FN(u).Float32())
	case dlpack.CodeFloat6E3M2FN:
		return float32Number(minifloat.Float6E3M2FN(u).Float32())
	case dlpack.CodeFloat4E2M1FN:
		return float32Number(minifloat.Float4E2M1FN(u).Float32())
	}
	return number{}
}

func float32Number(f float32) number {
	return number{kind: floatNumber, bits: 32, f: float64(f)}
}

func complex64Number(c complex64) number {
	return number{kind: complexNumber, bits: 32, c: complex128(c)}
}

// loadAny reads a value at any address.
func loadAny[T any](p unsafe.Pointer) T {
	var x T
	if unalignedOK || uintptr(p)%unsafe.Alignof(x) == 0 {
		return *(*T)(p) // SAFETY: the caller vouches for the memory.
	}
	// SAFETY: as above, byte by byte.
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x)), unsafe.Slice((*byte)(p), unsafe.Sizeof(x)))
	return x
}

// storeAny writes a value at any address.
func storeAny[T any](p unsafe.Pointer, x T) {
	if unalignedOK || uintptr(p)%unsafe.Alignof(x) == 0 {
		*(*T)(p) = x // SAFETY: the caller vouches for the memory.
		return
	}
	// SAFETY: as above, byte by byte.
	copy(unsafe.Slice((*byte)(p), unsafe.Sizeof(x)), unsafe.Slice((*byte)(unsafe.Pointer(&x)), unsafe.Sizeof(x)))
}

// putBits writes an element given by its bit pattern.
func (v *StridedMemoryView) putBits(p unsafe.Pointer, off int64, u uint64) {
	bits := v.dtype.Bits
	if bits < 8 {
		// SAFETY: storeBits stays within the element. Padded elements get
		// zeros above their bits.
		if v.layout.width == 8 {
			bits = 8
		}
		storeBits(p, off*int64(v.layout.width), uint(bits), uint8(u))
		return
	}
	// SAFETY: an element of the array, see Layout.
	p = unsafe.Add(p, off*int64(v.layout.width/8))
	switch bits {
	case 8:
		*(*uint8)(p) = uint8(u) // SAFETY: as above, and in the lines below.
	case 16:
		storeAny(p, uint16(u))
	case 32:
		storeAny(p, uint32(u))
	case 64:
		storeAny(p, u)
	}
}

// floatBits returns the bit pattern of x in a real floating-point dtype,
// rounded to the nearest, ties to even.
func floatBits(dt dlpack.DataType, x float64) (uint64, bool) {
	switch dt.Code {
	case dlpack.CodeFloat:
		switch dt.Bits {
		case 16:
			return uint64(float16Bits(x)), true
		case 32:
			return uint64(math.Float32bits(float32(x))), true
		case 64:
			return math.Float64bits(x), true
		}
	case dlpack.CodeBfloat:
		return uint64(minifloat.FromFloat64[minifloat.BFloat16](x)), true
	case dlpack.CodeFloat8E3M4:
		return uint64(minifloat.FromFloat64[minifloat.Float8E3M4](x)), true
	case dlpack.CodeFloat8E4M3:
		return uint64(minifloat.FromFloat64[minifloat.Float8E4M3](x)), true
	case dlpack.CodeFloat8E4M3B11FNUZ:
		return uint64(minifloat.FromFloat64[minifloat.Float8E4M3B11FNUZ](x)), true
	case dlpack.CodeFloat8E4M3FN:
		return uint64(minifloat.FromFloat64[minifloat.Float8E4M3FN](x)), true
	case dlpack.CodeFloat8E4M3FNUZ:
		return uint64(minifloat.FromFloat64[minifloat.Float8E4M3FNUZ](x)), true
	case dlpack.CodeFloat8E5M2:
		return uint64(minifloat.FromFloat64[minifloat.Float8E5M2](x)), true
	case dlpack.CodeFloat8E5M2FNUZ:
		return uint64(minifloat.FromFloat64[minifloat.Float8E5M2FNUZ](x)), true
	case dlpack.CodeFloat8E8M0FNU:
		return uint64(minifloat.FromFloat64[minifloat.Float8E8M0FNU](x)), true
	case dlpack.CodeFloat6E2M3FN:
		return uint64(minifloat.FromFloat64[minifloat.Float6E2M3FN](x)), true
	case dlpack.CodeFloat6E3M2FN:
		return uint64(minifloat.FromFloat64[minifloat.Float6E3M2FN](x)), true
	case dlpack.CodeFloat4E2M1FN:
		return uint64(minifloat.FromFloat64[minifloat.Float4E2M1FN](x)), true
	}
	return 0, false
}

// putComplex writes an element of a complex dtype.
func (v *StridedMemoryView) putComplex(p unsafe.Pointer, off int64, c complex128) bool {
	// SAFETY: an element of the array, see Layout.
	p = unsafe.Add(p, off*int64(v.layout.width/8))
	switch v.dtype {
	case dlpack.Complex128:
		storeAny(p, [2]uint64{math.Float64bits(real(c)), math.Float64bits(imag(c))})
	case dlpack.Complex64:
		storeAny(p, [2]uint32{math.Float32bits(float32(real(c))), math.Float32bits(float32(imag(c)))})
	case dlpack.Complex32:
		storeAny(p, [2]uint16{float16Bits(real(c)), float16Bits(imag(c))})
	case dlpack.BComplex32:
		storeAny(p, [2]uint16{
			uint16(minifloat.FromFloat64[minifloat.BFloat16](real(c))),
			uint16(minifloat.FromFloat64[minifloat.BFloat16](imag(c))),
		})
	default:
		return false
	}
	return true
}

// float16Bits rounds x once to half precision. Going through float32 would
// round twice; rounding the first step to odd makes the second one right.
func float16Bits(x float64) uint16 {
	f := float32(x)
	if d := float64(f); d != x && !math.IsNaN(x) && !math.IsInf(d, 0) {
		b := math.Float32bits(f)
		if b&1 == 0 {
			// f was rounded to an even pattern: take the odd neighbour on
			// the side of x.
			if (d < x) == (x > 0) {
				b++
			} else if b&0x7fffffff != 0 {
				b--
			}
			f = math.Float32frombits(b)
		}
	}
	return float16.Fromfloat32(f).Bits()
}

func (v *StridedMemoryView) read(index []int64) number {
	off, _ := v.layout.at(index)
	n := v.numberAt(v.pointer(), off)
	runtime.KeepAlive(v)
	return n
}

// forNumbers calls f with every element in C order until it returns false.
func (v *StridedMemoryView) forNumbers(f func(number) bool) {
	if v.layout.empty() {
		return
	}
	p := v.pointer()
	v.layout.walk(func(off int64) bool { return f(v.numberAt(p, off)) })
	runtime.KeepAlive(v)
}

// putNumber writes an element as a number of v's dtype, which is numeric, and says whether that has it. p is
// the address that offsets count from.
func (v *StridedMemoryView) putNumber(p unsafe.Pointer, off int64, n *number) bool {
	c := n.c
	if n.kind != complexNumber {
		f, _ := n.float64()
		c = complex(f, 0)
	}
	switch v.dtype.Code {
	case dlpack.CodeComplex, dlpack.CodeBcomplex:
		return v.putComplex(p, off, c)
	case dlpack.CodeInt, dlpack.CodeUInt, dlpack.CodeBool:
		switch n.kind {
		case intNumber:
			return v.setInt(off, uint64(n.i), n.i < 0) == nil
		case uintNumber, boolNumber:
			return v.setInt(off, n.u, false) == nil
		}
	}
	x := real(c)
	if imag(c) != 0 {
		return false
	}
	if u, ok := floatBits(v.dtype, x); ok {
		v.putBits(p, off, u)
		return true
	}
	switch {
	case x != math.Trunc(x) || x < -1<<63 || x >= 1<<64:
		return false
	case x >= 1<<63:
		return v.setInt(off, uint64(x), false) == nil
	}
	return v.setInt(off, uint64(int64(x)), x < 0) == nil
}

// rowConverter returns what converts n elements of src from an offset on to v's, and says how many it has
// converted and whether all of them were numbers of v's dtype.
func (v *StridedMemoryView) rowConverter(src *StridedMemoryView) func(to, from, n, toStep, fromStep int64) (int64, bool) {
	p, q := v.pointer(), src.pointer()
	switch v.dtype {
	case dlpack.Float32:
		if f := floatRow[float32](src.dtype, p, q); f != nil {
			return f
		}
	case dlpack.Float64:
		if f := floatRow[float64](src.dtype, p, q); f != nil {
			return f
		}
	}
	return func(to, from, n, toStep, fromStep int64) (int64, bool) {
		for i := range n {
			x := src.numberAt(q, from)
			if !v.putNumber(p, to, &x) {
				return i, false
			}
			to += toStep
			from += fromStep
		}
		return n, true
	}
}

// floatRow is the row converter from the dtypes that are Go's, nil for others.
func floatRow[D float32 | float64](d dlpack.DataType, p, q unsafe.Pointer) func(to, from, n, toStep, fromStep int64) (int64, bool) {
	switch d {
	case dlpack.Int8:
		return row[D, int8](p, q)
	case dlpack.Int16:
		return row[D, int16](p, q)
	case dlpack.Int32:
		return row[D, int32](p, q)
	case dlpack.UInt8:
		return row[D, uint8](p, q)
	case dlpack.UInt16:
		return row[D, uint16](p, q)
	case dlpack.UInt32:
		return row[D, uint32](p, q)
	case dlpack.Float32:
		return row[D, float32](p, q)
	case dlpack.Float64:
		return row[D, float64](p, q)
	}
	return nil
}

func row[D float32 | float64, S int8 | int16 | int32 | uint8 | uint16 | uint32 | float32 | float64](p, q unsafe.Pointer) func(to, from, n, toStep, fromStep int64) (int64, bool) {
	d, s := int64(unsafe.Sizeof(D(0))), int64(unsafe.Sizeof(S(0)))
	return func(to, from, n, toStep, fromStep int64) (int64, bool) {
		for i := range n {
			// SAFETY: elements of the arrays, see Layout.
			storeAny(unsafe.Add(p, (to+i*toStep)*d), D(loadAny[S](unsafe.Add(q, (from+i*fromStep)*s))))
		}
		return n, true
	}
}
