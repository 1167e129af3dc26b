package dlpack

import (
	"math"
	"math/bits"
	"strconv"
)

// MaxDims is the largest number of axes that is accepted or exported.
const MaxDims = 64

// maxAddress is the last address that a pointer can hold.
const maxAddress = uint64(^uintptr(0))

// kind numbers the sentinel errors; the values are those of HO_E_* in C.
type kind int32

const (
	kindOK       kind = 0
	kindVersion  kind = 1
	kindFlags    kind = 2
	kindDType    kind = 3
	kindDevice   kind = 4
	kindLayout   kind = 5
	kindOverflow kind = 6
	kindNull     kind = 7
	kindAlign    kind = 8
)

var kindErrors = [...]error{
	kindVersion: ErrVersion, kindFlags: ErrFlags, kindDType: ErrDType, kindDevice: ErrDevice,
	kindLayout: ErrLayout, kindOverflow: ErrOverflow, kindNull: ErrNull, kindAlign: ErrAlign,
}

// what selects the text of a problem.
type what int32

const (
	whatNone what = iota
	whatVersion
	whatFlags
	whatDType
	whatDevice
	whatNegativeDims
	whatManyDims
	whatNoShape
	whatExtent
	whatCount
	whatElements
	whatBytes
	whatRowMajor
	whatReach
	whatNullData
	whatNullStruct
	whatOffset
	whatAddress
	whatAlign
	whatStructAlign
	whatStrides
)

// problem is what a check found: an error that costs nothing until somebody
// wants its text. The zero value is no problem.
type problem struct {
	kind kind
	what what
	rule int
	a, b int64 // numbers that the text mentions
}

// err builds the error for a caller outside the package.
func (p problem) err(op string) error {
	return &RuleError{Rule: ruleName(p.rule), Op: op, Detail: p.detail(), Err: kindErrors[p.kind]}
}

// ruleName returns the name of a rule: 8 gives "R008".
func ruleName(n int) string {
	s := strconv.Itoa(n)
	return "R000"[:4-len(s)] + s
}

func (p problem) detail() string {
	a, b := strconv.FormatInt(p.a, 10), strconv.FormatInt(p.b, 10)
	switch p.what {
	case whatVersion:
		return "version " + a + "." + b + ", not major " + strconv.Itoa(int(ABIVersion.Major))
	case whatFlags:
		return "flags " + Flags(p.a).String()
	case whatDType:
		return "dtype " + unpackDataType(uint32(p.a)).String()
	case whatDevice:
		return "device type " + a
	case whatNegativeDims:
		return "ndim " + a + " is negative"
	case whatManyDims:
		return "ndim " + a + " is above " + strconv.Itoa(MaxDims)
	case whatNoShape:
		return "ndim " + a + " without a shape"
	case whatExtent:
		return "extent " + b + " of axis " + a + " is negative"
	case whatCount:
		return "element count " + a + " is negative"
	case whatElements:
		return "number of elements does not fit, at axis " + a
	case whatBytes:
		return "size of " + a + " elements in bytes does not fit"
	case whatRowMajor:
		return "row-major stride of axis " + a + " does not fit"
	case whatReach:
		return "reach of stride " + b + " of axis " + a + " does not fit"
	case whatNullData:
		return "data is NULL but there are elements"
	case whatNullStruct:
		return "pointer is NULL"
	case whatOffset:
		return "data plus byte offset " + strconv.FormatUint(uint64(p.a), 10) + " passes the end of memory"
	case whatAddress:
		return "elements lie outside of the address space"
	case whatAlign:
		return "address of the first element is not a multiple of " + a
	case whatStructAlign:
		return "address of the struct is not a multiple of 8"
	case whatStrides:
		return a + " strides for " + b + " axes"
	}
	return ""
}

// Check validates a description: the flags, the device type, the element type,
// shape and strides, and that every element lies inside the address space and
// is aligned. It applies the rules R012, R022 to R029, R034, R035, R038, R041,
// R042, R044 to R047, R052 to R054. The error is a [*RuleError].
//
// A tensor without elements needs no data (R044); a stride of an axis with one
// index is ignored (R054); negative and zero strides are fine (R052, R053).
// The C function ho_check_tensor gives the same verdicts.
func (d *Desc) Check() error {
	if p := d.problem(); p.kind != kindOK {
		return p.err("dlpack: check")
	}
	return nil
}

func (d *Desc) problem() problem {
	if d == nil {
		return problem{kind: kindNull, what: whatNullStruct}
	}
	if d.Strides != nil && len(d.Strides) != len(d.Shape) {
		return problem{kind: kindLayout, rule: 49, what: whatStrides, a: int64(len(d.Strides)), b: int64(len(d.Shape))}
	}
	t := rawTensor{
		data: uint64(d.Data), byteOffset: d.ByteOffset, device: d.Device.Type, ndim: clampInt32(len(d.Shape)),
		dtype: d.DType, hasShape: true, shape: d.Shape, strides: d.Strides,
	}
	return t.check(d.Flags)
}

func clampInt32(n int) int32 {
	return int32(min(n, math.MaxInt32))
}

// rawTensor is a tensor as it was found, before anything is believed.
type rawTensor struct {
	data       uint64
	byteOffset uint64
	device     DeviceType
	ndim       int32
	dtype      DataType
	hasShape   bool
	shape      []int64 // read only if ndim is in range and hasShape
	strides    []int64 // nil if row-major
}

// header checks everything that can be judged without reading shape and
// strides, whose lengths are not known before.
func (t *rawTensor) header(flags Flags) problem {
	switch {
	case flags&^knownFlags != 0:
		return problem{kind: kindFlags, rule: 12, what: whatFlags, a: int64(flags)}
	case !t.device.Known():
		return problem{kind: kindDevice, rule: 35, what: whatDevice, a: int64(t.device)}
	case t.ndim < 0:
		return problem{kind: kindLayout, rule: 47, what: whatNegativeDims, a: int64(t.ndim)}
	case t.ndim > MaxDims:
		return problem{kind: kindLayout, rule: 47, what: whatManyDims, a: int64(t.ndim)}
	}
	if p := t.dtype.problem(); p.kind != kindOK {
		return p
	}
	if t.ndim > 0 && !t.hasShape {
		return problem{kind: kindLayout, rule: 47, what: whatNoShape, a: int64(t.ndim)}
	}
	return problem{}
}

// check is the whole validation. Its order decides which of several problems
// is reported; check.c does the same in the same order.
func (t *rawTensor) check(flags Flags) problem {
	if p := t.header(flags); p.kind != kindOK {
		return p
	}
	return t.body(flags)
}

func (t *rawTensor) body(flags Flags) problem {
	empty := false
	for i, n := range t.shape {
		if n < 0 {
			return problem{kind: kindLayout, rule: 34, what: whatExtent, a: int64(i), b: n}
		}
		empty = empty || n == 0
	}
	if t.strides == nil {
		// The strides that NULL stands for must exist, also without elements.
		step := int64(1)
		for i := len(t.shape) - 1; i > 0; i-- {
			var ok bool
			if step, ok = mulInt64(step, max(t.shape[i], 1)); !ok {
				return problem{kind: kindOverflow, rule: 34, what: whatRowMajor, a: int64(i - 1)}
			}
		}
	}
	if empty {
		return problem{}
	}
	count := int64(1)
	for i, n := range t.shape {
		var ok bool
		if count, ok = mulInt64(count, n); !ok {
			return problem{kind: kindOverflow, rule: 34, what: whatElements, a: int64(i)}
		}
	}
	padded := flags&FlagSubbyteTypePadded != 0
	if _, ok := t.dtype.byteSize(count, padded); !ok {
		return problem{kind: kindOverflow, rule: 34, what: whatBytes, a: count}
	}
	// Elements before and after the first one.
	before, after := int64(0), count-1
	if t.strides != nil {
		after = 0
		for i, n := range t.shape {
			if n == 1 {
				continue
			}
			reach, ok := mulInt64(n-1, t.strides[i])
			if ok && reach < 0 {
				before, ok = addInt64(before, reach)
			} else if ok {
				after, ok = addInt64(after, reach)
			}
			if !ok {
				return problem{kind: kindOverflow, rule: 34, what: whatReach, a: int64(i), b: t.strides[i]}
			}
		}
	}
	var low, high, span int64
	ok := before != math.MinInt64
	if ok {
		low, ok = t.dtype.byteSize(-before, padded)
	}
	if ok {
		span, ok = addInt64(after, 1)
	}
	if ok {
		high, ok = t.dtype.byteSize(span, padded)
	}
	if ok {
		_, ok = addInt64(low, high)
	}
	if !ok {
		return problem{kind: kindOverflow, rule: 34, what: whatAddress}
	}
	if !t.device.HasAddresses() {
		return problem{}
	}
	if t.data == 0 {
		return problem{kind: kindNull, rule: 45, what: whatNullData}
	}
	first, carry := bits.Add64(t.data, t.byteOffset, 0)
	if carry != 0 || first > maxAddress {
		return problem{kind: kindOverflow, rule: 42, what: whatOffset, a: int64(t.byteOffset)}
	}
	if align := uint64(t.dtype.Alignment()); first&(align-1) != 0 {
		return problem{kind: kindAlign, rule: 41, what: whatAlign, a: int64(align)}
	}
	if uint64(low) > first || uint64(high) > maxAddress-first {
		return problem{kind: kindOverflow, rule: 39, what: whatAddress}
	}
	return problem{}
}

// mulInt64 returns a times b and whether the product fits.
func mulInt64(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	p := a * b
	if (a == -1 && b == math.MinInt64) || (b == -1 && a == math.MinInt64) || p/b != a {
		return 0, false
	}
	return p, true
}

// addInt64 returns a plus b and whether the sum fits.
func addInt64(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}
