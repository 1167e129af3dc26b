package conformance

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/conformance/internal/relay"
	"github.com/go-handoff/handoff/conformance/rules"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/stream"
)

// Consumer is a library that takes managed tensors, as a function: it consumes
// the capsule in any case, and gives the memory back when the result is closed.
type Consumer func(dlpack.Capsule) (io.Closer, error)

// Pending is a producer on a device with a write that has not happened yet, for
// the rules about the order of streams.
type Pending struct {
	// Producer has the memory that is being written.
	Producer dlpack.Producer
	// Stream is the handle of a stream of the consumer, another one.
	Stream uint64
	// Done reports whether all work queued on Stream so far has happened.
	Done func() (bool, error)
	// Finish lets the write happen and waits for it.
	Finish func() error
	// Written, if not nil, reports whether the write has happened. Without it a
	// producer that lets the host wait (R138) and one that does not order (R137)
	// look alike.
	Written func() (bool, error)
	// Copy asks for a copy (R153) instead of the memory itself.
	Copy bool
	// TakeCAI, if not nil, is a consumer under test: it takes what the
	// producer describes for work on Stream, which has to wait for the stream
	// that is named (R188).
	TakeCAI func(cai.Interface) (io.Closer, error)
}

// Work is a consumer on a device that works, on a stream of its own, on memory
// that a description with a stream names (R189).
type Work struct {
	// Memory is what the producer describes. It names a stream without work.
	Memory cai.Interface
	// Do takes the memory, queues work on the consumer's own stream, on which
	// nothing can happen before Finish, and gives the memory back.
	Do func(cai.Interface) error
	// Done reports whether all work on the stream that is named has happened.
	Done func() (bool, error)
	// Finish lets the work happen and waits for it.
	Finish func() error
}

// Translate turns the value under the key "stream" of the CUDA Array Interface
// into the stream argument of DLPack's Python protocol: nil, or an integer.
type Translate func(value any) (any, error)

// Tensor is a DLManagedTensor or DLManagedTensorVersioned at an address, that
// the caller owns: a pointer of C, as a target.
type Tensor dlpack.Capsule

// InGo reports whether a check of the Go half looks at a rule.
func InGo(id string) bool { return slices.Contains(goRules(), id) }

// CheckGo runs the checks of the Go half on a target: a [dlpack.Producer], a
// [cai.Producer], a [stream.StreamLike], a [Consumer], a [Pending], a [Work], a
// [Translate], or a [Tensor], which it consumes. A value that is several of them is checked as
// each. A target that is none of them gives an error.
//
// It uses the target from several goroutines, but never two at once.
func CheckGo(target any) ([]Result, error) {
	c := &goChecker{results: map[string]*Result{}}
	known := false
	if p, ok := target.(dlpack.Producer); ok {
		known = true
		c.producer(p)
	}
	if p, ok := target.(cai.Producer); ok {
		known = true
		c.cai(p)
	}
	if s, ok := target.(stream.StreamLike); ok {
		known = true
		c.stream(s)
	}
	switch x := target.(type) {
	case Consumer:
		known = true
		c.consumer(x)
	case func(dlpack.Capsule) (io.Closer, error):
		known = true
		c.consumer(x)
	case Pending:
		known = true
		c.pending(&x)
	case Work:
		known = true
		c.work(&x)
	case Translate:
		known = true
		c.translate(x)
	case Tensor:
		known = true
		c.at = "tensor"
		c.tensor(dlpack.Capsule(x), dlpack.Device{})
		_ = dlpack.Capsule(x).Close()
	}
	if !known {
		return nil, fmt.Errorf("conformance: %T is no target: %w", target, dlpack.ErrNotSupported)
	}
	out := make([]Result, 0, len(c.results))
	for _, r := range rules.All() {
		if res := c.results[r.ID]; res != nil {
			out = append(out, *res)
		}
	}
	return out, nil
}

// Test runs [CheckGo] as subtests, one per rule. A MUST that is broken fails;
// other rules that are not kept are logged.
func Test(t *testing.T, target any) {
	t.Helper()
	results, err := CheckGo(target)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		rule := rules.Get(r.Rule)
		t.Run(r.Rule, func(t *testing.T) {
			switch {
			case r.Status == Skipped:
				t.Skip(r.What)
			case r.Status.Bad() && rule.Strength == rules.Must:
				t.Errorf("%s\n%s", rule.Text(), r.What)
			case r.Status.Bad():
				t.Logf("%s: %s\n%s", rule.Strength, rule.Text(), r.What)
			}
		})
	}
}

// goChecker collects results.
type goChecker struct {
	results map[string]*Result
	at      string // what the target is given
}

// expect notes that a rule was looked at, and that it is broken unless ok.
func (c *goChecker) expect(ok bool, rule, format string, args ...any) bool {
	r := c.results[rule]
	if r == nil {
		r = &Result{Rule: rule, Status: Kept, Checks: []string{"Go"}}
		c.results[rule] = r
	}
	if !ok {
		if r.Status == Broken {
			r.What += "; "
		}
		r.Status = Broken
		r.What += fmt.Sprintf(format, args...) + " [" + c.at + "]"
	}
	return ok
}

// The structs of DLPack with addresses as numbers.
type dlTensor struct {
	data       uintptr
	deviceType int32
	deviceID   int32
	ndim       int32
	code       uint8
	bits       uint8
	lanes      uint16
	shape      uintptr
	strides    uintptr
	byteOffset uint64
}

type dlLegacy struct {
	t dlTensor
	_ uintptr // the context
	_ uintptr // the deleter
}

type dlVersioned struct {
	major, minor uint32
	_            uintptr // the context
	_            uintptr // the deleter
	flags        uint64
	t            dlTensor
}

func (t *dlTensor) device() dlpack.Device {
	return dlpack.Device{Type: dlpack.DeviceType(t.deviceType), ID: t.deviceID}
}

func (t *dlTensor) dims() []int64 {
	if t.ndim < 0 || t.ndim > dlpack.MaxDims {
		return nil
	}
	return cptr.Slice[int64](t.shape, int(t.ndim))
}

// fields returns the tensor of a capsule, its version and its flags.
func fields(c dlpack.Capsule) (t *dlTensor, v dlpack.Version, f dlpack.Flags) {
	if !c.Versioned {
		return &cptr.To[dlLegacy](c.Addr).t, dlpack.Version{}, 0
	}
	m := cptr.To[dlVersioned](c.Addr)
	return &m.t, dlpack.Version{Major: m.major, Minor: m.minor}, dlpack.Flags(m.flags)
}

// tensor checks the struct of a capsule. dev is where it should be, or zero.
func (c *goChecker) tensor(capsule dlpack.Capsule, dev dlpack.Device) {
	t, v, f := fields(capsule)
	if capsule.Versioned {
		c.expect(v.Major == 1, "R006", "version %d.%d", v.Major, v.Minor)
		c.expect(v.Minor < 100, "R003", "version %d.%d", v.Major, v.Minor)
		c.expect(f&^7 == 0, "R013", "flags %#x", uint64(f))
		if v.Minor >= 2 && t.ndim > 0 {
			c.expect(t.strides != 0, "R049", "strides NULL in version %d.%d", v.Major, v.Minor)
		}
		if t.code >= 7 {
			c.expect(v.Minor >= 1, "R007", "code %d in version %d.%d", t.code, v.Major, v.Minor)
		}
	} else {
		c.expect(t.lanes > 0, "R002", "lanes 0")
	}
	c.expect(t.ndim >= 0 && t.ndim <= dlpack.MaxDims, "R001", "ndim %d", t.ndim)
	c.expect(dlpack.DeviceType(t.deviceType).Known(), "R004", "device type %d", t.deviceType)
	d := dlpack.DataType{Code: dlpack.TypeCode(t.code), Bits: t.bits, Lanes: t.lanes}
	c.expect(d.Known(), "R005", "dtype %v", d)
	switch d.Code {
	case dlpack.CodeFloat6E2M3FN, dlpack.CodeFloat6E3M2FN:
		c.expect(d.Bits == 6, "R022", "dtype %v", d)
	case dlpack.CodeFloat4E2M1FN:
		c.expect(d.Bits == 4, "R023", "dtype %v", d)
	case dlpack.CodeBool:
		c.expect(d == dlpack.Bool, "R024", "dtype %v", d)
	case dlpack.CodeBfloat:
		c.expect(d.Bits == 16, "R026", "dtype %v", d)
	default:
	}
	if ty := dlpack.DeviceType(t.deviceType); ty == dlpack.DeviceCPU || ty == dlpack.DeviceCUDAHost || ty == dlpack.DeviceCUDAManaged {
		c.expect(t.deviceID == 0, "R036", "device id %d", t.deviceID)
	} else if ty == dlpack.DeviceCUDA || ty == dlpack.DeviceROCM {
		c.expect(t.deviceID >= 0, "R037", "device id %d", t.deviceID)
	}
	if dev != (dlpack.Device{}) {
		c.expect(t.device() == dev, "R155", "exported on %v, said %v", t.device(), dev)
		c.expect(t.device() == dev, "R143", "exported on %v", t.device())
	}
	if slices.Contains(t.dims(), 0) {
		c.expect(t.data == 0, "R043", "data %#x", t.data)
	}
}

// streamOf returns the argument that stands for no ordering on a device.
func noOrder(d dlpack.Device) dlpack.StreamArg {
	if d.Type == dlpack.DeviceCPU {
		return dlpack.StreamArg{}
	}
	return dlpack.StreamInt(-1)
}

func (c *goChecker) producer(p dlpack.Producer) {
	c.at = "DLPackDevice"
	dev, err := p.DLPackDevice()
	if !c.expect(err == nil, "R154", "%v", err) {
		return
	}
	ask := func(at string, r dlpack.Request) (dlpack.Capsule, error) {
		c.at = at
		if r.Stream.IsNone() {
			r.Stream = noOrder(dev)
		}
		return p.DLPack(r)
	}
	drop := func(x dlpack.Capsule) {
		if x.Addr != 0 {
			_ = x.Close()
		}
	}
	newest := dlpack.Request{MaxVersion: dlpack.ABIVersion}
	for _, x := range []struct {
		v    dlpack.Version
		rule string
	}{{dlpack.Version{Major: 1, Minor: 3}, "R117"}, {dlpack.Version{Major: 1, Minor: 99}, "R117"}, {dlpack.Version{Major: 2}, "R117"}, {dlpack.Version{Major: 1}, "R118"}} {
		got, err := ask(fmt.Sprintf("version %d.%d", x.v.Major, x.v.Minor), dlpack.Request{MaxVersion: x.v})
		if c.expect(err == nil, x.rule, "%v", err) {
			c.expect(got.Versioned, x.rule, "unversioned")
			c.tensor(got, dev)
			drop(got)
		}
	}
	a, err := ask("version 1.3", newest)
	if err != nil {
		return
	}
	ta, _, flags := fields(a)
	for _, v := range []dlpack.Version{{}, {Minor: 8}} {
		got, err := ask(fmt.Sprintf("version %d.%d", v.Major, v.Minor), dlpack.Request{MaxVersion: v})
		rule := map[bool]string{true: "R084", false: "R119"}[v == dlpack.Version{}]
		if err != nil {
			ok := errors.Is(err, dlpack.ErrReadOnly) || errors.Is(err, dlpack.ErrLayout) || errors.Is(err, dlpack.ErrVersion)
			c.expect(ok, "R116", "%v", err)
			continue
		}
		c.expect(!got.Versioned, rule, "versioned")
		c.expect(!got.Versioned, "R116", "versioned")
		c.expect(!flags.Has(dlpack.FlagReadOnly), "R057", "read-only memory in a form that cannot say so")
		c.expect(!flags.Has(dlpack.FlagSubbyteTypePadded), "R021", "padded elements in a form that cannot say so")
		c.tensor(got, dev)
		drop(got)
	}
	b, err := ask("a second export", newest)
	if c.expect(err == nil, "R070", "%v", err) {
		tb, _, fb := fields(b)
		empty := slices.Contains(ta.dims(), 0)
		if c.expect(a.Addr != b.Addr, "R070", "two exports are one struct") {
			shared := ta.data+uintptr(ta.byteOffset) == tb.data+uintptr(tb.byteOffset) && !empty
			c.expect(!shared || !fb.Has(dlpack.FlagIsCopied), "R019", "shared, and IS_COPIED is set")
			c.expect(shared || empty || fb.Has(dlpack.FlagIsCopied), "R152", "copied, and IS_COPIED is not set")
			shape := slices.Clone(ta.dims())
			done := make(chan struct{})
			go func() { // any thread may release; what cannot ends the process
				defer close(done)
				runtime.LockOSThread()
				_ = b.Close()
			}()
			<-done
			c.expect(slices.Equal(shape, ta.dims()), "R056", "the shape became %v", ta.dims())
		}
	}
	never := newest
	never.Copy = dlpack.CopyNever
	if got, err := ask("copy never", never); err != nil {
		c.expect(errors.Is(err, dlpack.ErrCopy), "R151", "%v", err)
	} else {
		t, _, _ := fields(got)
		c.expect(t.data+uintptr(t.byteOffset) == ta.data+uintptr(ta.byteOffset), "R151", "copied")
		drop(got)
	}
	always := newest
	always.Copy = dlpack.CopyAlways
	if got, err := ask("copy always", always); err != nil {
		c.expect(errors.Is(err, dlpack.ErrCopy), "R150", "%v", err)
	} else {
		t, _, f := fields(got)
		if !slices.Contains(t.dims(), 0) {
			c.expect(t.data != ta.data, "R150", "shared")
		}
		c.expect(f.Has(dlpack.FlagIsCopied), "R017", "IS_COPIED is not set")
		drop(got)
	}
	far := newest
	far.Device = dlpack.Device{Type: dlpack.DeviceVulkan, ID: 3}
	if got, err := ask("device vulkan:3", far); err == nil {
		c.expect(false, "R144", "served")
		drop(got)
	} else {
		c.expect(errors.Is(err, dlpack.ErrDevice), "R144", "%v", err)
	}
	own := newest
	own.Device = dev
	if got, err := ask("its own device", own); c.expect(err == nil, "R149", "%v", err) {
		t, _, _ := fields(got)
		c.expect(t.device() == dev, "R149", "exported on %v", t.device())
		drop(got)
	}
	c.streams(p, dev)
	drop(a)
}

// streams checks the values of the stream argument.
func (c *goChecker) streams(p dlpack.Producer, dev dlpack.Device) {
	type want struct {
		n    int64
		rule string
		ok   bool
	}
	list := []want{{-2, "R132", false}}
	switch dev.Type {
	case dlpack.DeviceCPU:
		list = append(list, want{1, "R135", false}, want{1 << 40, "R135", false})
	case dlpack.DeviceCUDA, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged:
		list = append(list, want{0, "R128", false}, want{-1, "R127", true}, want{1, "R129", true})
	case dlpack.DeviceROCM:
		list = append(list, want{0, "R133", true}, want{1, "R134", false}, want{2, "R134", false})
	default:
	}
	for _, w := range list {
		c.at = fmt.Sprintf("stream %d", w.n)
		got, err := p.DLPack(dlpack.Request{MaxVersion: dlpack.ABIVersion, Stream: dlpack.StreamInt(w.n)})
		c.expect((err == nil) == w.ok, w.rule, "error %v", err)
		if err == nil {
			got.Close()
		}
	}
}

func (c *goChecker) cai(p cai.Producer) {
	c.at = "CUDAArrayInterface"
	i, err := p.CUDAArrayInterface()
	if err != nil {
		ok := errors.Is(err, dlpack.ErrDevice) || errors.Is(err, dlpack.ErrDType)
		c.expect(ok, "R199", "%v", err)
		return
	}
	c.expect(i.Version >= 0, "R197", "version %d", i.Version)
	ok := true
	empty := false
	for _, n := range i.Shape {
		ok = ok && n >= 0
		empty = empty || n == 0
	}
	c.expect(ok, "R169", "shape %v", i.Shape)
	_, err = cai.ParseTypestr(i.Typestr.String())
	c.expect(err == nil, "R170", "typestr %q: %v", i.Typestr.String(), err)
	c.expect(i.Strides == nil || len(i.Strides) == len(i.Shape), "R178", "strides %v", i.Strides)
	if empty && i.Version >= 2 {
		c.expect(i.Data == 0, "R173", "pointer %#x", i.Data)
		c.expect(i.Data == 0, "R287", "pointer %#x", i.Data)
	}
	c.expect(i.Check() == nil, "R172", "%v", i.Check())
	if d, isProducer := p.(dlpack.Producer); isProducer {
		if dev, err := d.DLPackDevice(); err == nil {
			got, err := d.DLPack(dlpack.Request{MaxVersion: dlpack.ABIVersion, Stream: noOrder(dev)})
			if err == nil {
				t, _, f := fields(got)
				c.expect(f.Has(dlpack.FlagReadOnly) == i.ReadOnly, "R176", "read-only %v, DLPack says %v", i.ReadOnly, f)
				c.expect(f.Has(dlpack.FlagReadOnly) == i.ReadOnly, "R280", "read-only %v, DLPack says %v", i.ReadOnly, f)
				if !empty {
					c.expect(t.data+uintptr(t.byteOffset) == i.Data, "R283", "pointer %#x", i.Data)
				}
				got.Close()
			}
		}
	}
}

func (c *goChecker) stream(s stream.StreamLike) {
	c.at = "CUDAStream"
	version, handle := s.CUDAStream()
	c.expect(version == 0, "R262", "version %d", version)
	_, again := s.CUDAStream()
	c.expect(again == handle, "R271", "the handle was %#x, is %#x", handle, again)
	_, err := stream.KindOf(handle)
	c.expect(err == nil, "R263", "%v", err)
}

// pending checks the order of streams.
func (c *goChecker) pending(p *Pending) {
	dev, err := p.Producer.DLPackDevice()
	if !c.expect(err == nil, "R154", "%v", err) {
		return
	}
	_ = dev
	done := func() bool {
		ok, err := p.Done()
		return ok && err == nil
	}
	ask := func(s dlpack.StreamArg) bool {
		got, err := p.Producer.DLPack(dlpack.Request{MaxVersion: dlpack.ABIVersion, Stream: s})
		if err != nil {
			c.expect(false, "R131", "%v", err)
			return false
		}
		got.Close()
		return true
	}
	if p.Copy {
		c.at = "a copy on the consumer's stream, a write pending"
		got, err := p.Producer.DLPack(dlpack.Request{
			MaxVersion: dlpack.ABIVersion, Stream: dlpack.StreamUint(p.Stream), Copy: dlpack.CopyAlways,
		})
		if c.expect(err == nil, "R150", "%v", err) {
			c.expect(!done(), "R153", "the copy is not queued on the consumer's stream")
			got.Close()
		}
		if err := p.Finish(); err != nil {
			c.expect(false, "R153", "%v", err)
		}
		return
	}
	if x, ok := p.Producer.(cai.Producer); ok && p.TakeCAI != nil {
		c.at = "taken by its description, a write pending"
		i, err := x.CUDAArrayInterface()
		if c.expect(err == nil, "R188", "%v", err) {
			got, err := p.TakeCAI(i)
			if c.expect(err == nil, "R188", "%v", err) {
				c.expect(!done(), "R188", "its stream does not wait for the stream that is named")
				defer got.Close()
			}
		}
		if err := p.Finish(); err != nil {
			c.expect(false, "R188", "%v", err)
		}
		return
	}
	c.at = "stream -1, a write pending"
	if ask(dlpack.StreamInt(-1)) {
		c.expect(done(), "R127", "the consumer's stream waits")
	}
	if x, ok := p.Producer.(cai.Producer); ok {
		c.at = "CUDAArrayInterface, a write pending"
		i, err := x.CUDAArrayInterface()
		if c.expect(err == nil, "R190", "%v", err) {
			c.expect(!i.Stream.IsNone(), "R191", "no stream is named")
			c.expect(!i.Stream.IsNone(), "R190", "no stream is named")
		}
	}
	c.at = "the consumer's stream, a write pending"
	if ask(dlpack.StreamUint(p.Stream)) {
		c.expect(true, "R131", "")
		written := false
		if p.Written != nil {
			var err error
			written, err = p.Written()
			c.expect(err == nil, "R138", "%v", err)
		}
		free := done()
		c.expect(!free || written, "R137", "the consumer's stream does not wait for the write")
		c.expect(!written && (p.Written != nil || !free), "R138", "the host waited for the write")
	}
	if err := p.Finish(); err != nil {
		c.expect(false, "R137", "%v", err)
		return
	}
	if x, ok := p.Producer.(cai.Producer); ok {
		c.at = "CUDAArrayInterface, nothing pending"
		i, err := x.CUDAArrayInterface()
		c.expect(err == nil && i.Stream.IsNone(), "R192", "stream %v, %v", i.Stream, err)
	}
}

// work checks that the stream of a description waits for the consumer's work.
func (c *goChecker) work(w *Work) {
	c.at = "taken by its description, the work held back"
	back := make(chan error, 1)
	go func() { back <- w.Do(w.Memory) }()
	var err error
	waited := false
	select {
	case err = <-back:
	case <-time.After(patience):
		// It does not return until the work is done, which is allowed.
		waited = true
	}
	if !waited && c.expect(err == nil, "R189", "%v", err) {
		done, err := w.Done()
		c.expect(err == nil && !done, "R189", "the stream that is named does not wait for the work: %v", err)
	}
	err = w.Finish()
	c.expect(err == nil, "R189", "%v", err)
	if waited {
		err = <-back
		c.expect(err == nil, "R189", "%v", err)
	}
}

// patience is how long a consumer that waits for its own work is waited for.
const patience = time.Second

// translate checks how streams pass from one protocol to the other.
func (c *goChecker) translate(f Translate) {
	for _, n := range []int64{1, 2, 4096} {
		c.at = fmt.Sprintf("stream %d", n)
		got, err := f(n)
		same := err == nil && fmt.Sprint(got) == fmt.Sprint(n)
		c.expect(same, "R284", "became %v, %v", got, err)
		if n > 2 {
			c.expect(same, "R187", "became %v, %v", got, err)
		}
	}
	c.at = "stream None"
	got, err := f(nil)
	// Nothing is pending: nothing to order (-1).
	c.expect(err == nil && fmt.Sprint(got) == "-1", "R284", "became %v, %v", got, err)
	c.at = "stream 0"
	_, err = f(int64(0))
	c.expect(err != nil, "R184", "accepted")
}

// malformed is a sound tensor of 6 float32 and what is done to it.
type malformed struct {
	rule string
	at   string
	harm func(*dlVersioned)
	ok   bool // it has to be accepted
}

func malformations() []malformed {
	return []malformed{
		{"R010", "version 1.9", func(m *dlVersioned) { m.minor = 9 }, true},
		{"R008", "version 2.0", func(m *dlVersioned) { m.major = 2 }, false},
		{"R012", "flag bit 40", func(m *dlVersioned) { m.flags = 1 << 40 }, false},
		{"R011", "device type 99", func(m *dlVersioned) { m.t.deviceType = 99 }, false},
		{"R027", "dtype code 200", func(m *dlVersioned) { m.t.code = 200 }, false},
		{"R022", "float6 of 8 bits", func(m *dlVersioned) { m.t.code, m.t.bits = 15, 8 }, false},
		{"R023", "float4 of 8 bits", func(m *dlVersioned) { m.t.code, m.t.bits = 17, 8 }, false},
		{"R026", "bfloat of 32 bits", func(m *dlVersioned) { m.t.code = 4 }, false},
		{"R029", "lanes 0", func(m *dlVersioned) { m.t.lanes = 0 }, false},
		{"R034", "shape 2**62", func(m *dlVersioned) { m.t.dims()[0] = 1 << 62 }, false},
		{"R034", "shape -6", func(m *dlVersioned) { m.t.dims()[0] = -6 }, false},
		{"R045", "data NULL", func(m *dlVersioned) { m.t.data = 0 }, false},
		{"R047", "ndim -1", func(m *dlVersioned) { m.t.ndim = -1 }, false},
		{"R047", "shape NULL", func(m *dlVersioned) { m.t.shape = 0 }, false},
		{"R044", "no elements, data NULL", func(m *dlVersioned) { m.t.dims()[0], m.t.data = 0, 0 }, true},
		{"R046", "no axes", func(m *dlVersioned) { m.t.ndim, m.t.shape, m.t.strides = 0, 0, 0 }, true},
		{"R042", "byte_offset 4, 5 elements", func(m *dlVersioned) { m.t.byteOffset = 4; m.t.dims()[0] = 5 }, true},
		{"R050", "version 1.0, strides NULL", func(m *dlVersioned) { m.minor, m.t.strides = 0, 0 }, true},
	}
}

func (c *goChecker) consumer(take Consumer) {
	data := make([]float32, 6)
	for _, x := range malformations() {
		c.at = x.at
		e, err := dlpack.ExportSlice(data, nil, nil, nil)
		if err != nil {
			c.expect(false, x.rule, "the check cannot export: %v", err)
			return
		}
		capsule, err := e.DLPack(dlpack.Request{MaxVersion: dlpack.ABIVersion})
		e.Close()
		if err != nil {
			c.expect(false, x.rule, "the check cannot export: %v", err)
			return
		}
		r := relay.New(capsule.Addr)
		if r == nil {
			capsule.Close()
			c.expect(false, x.rule, "the check has no memory")
			return
		}
		x.harm(cptr.To[dlVersioned](r.Addr()))
		got, err := take(dlpack.Capsule{Addr: r.Addr(), Versioned: true})
		if x.ok {
			c.expect(err == nil, x.rule, "refused: %v", err)
		} else {
			c.expect(err != nil, x.rule, "accepted")
		}
		if err == nil {
			c.expect(r.Calls() == 0, "R060", "released while in use")
			err = got.Close()
			c.expect(err == nil, "R060", "%v", err)
			c.expect(r.Wrong() == 0, "R061", "the deleter was given another address")
		} else {
			c.expect(r.Calls() == 1, "R067", "released %d times after the refusal", r.Calls())
		}
		c.expect(r.Calls() == 1, "R060", "released %d times", r.Calls())
		if r.Calls() == 0 {
			// Not given back: whoever has it may still use it.
			capsule.Close()
			continue
		}
		r.Free()
	}
}

// goRules are the rules that the checks above look at.
func goRules() []string {
	return []string{
		"R001", "R002", "R003", "R004", "R005", "R006", "R007", "R008", "R010", "R011", "R012", "R013", "R017", "R019",
		"R021", "R022", "R023", "R024", "R026", "R027", "R029", "R034", "R036", "R037", "R042", "R043", "R044", "R045",
		"R046", "R047", "R049", "R050", "R056", "R057", "R060", "R061", "R067", "R070", "R084", "R116", "R117",
		"R118", "R119", "R127", "R128", "R129", "R131", "R132", "R133", "R134", "R135", "R137", "R138", "R143", "R144",
		"R149", "R150", "R151", "R152", "R153", "R154", "R155", "R169", "R170", "R172", "R173", "R176", "R178", "R184", "R187", "R188",
		"R189", "R190", "R191", "R192", "R197", "R199", "R262", "R263", "R271", "R280", "R283", "R284", "R287",
	}
}
