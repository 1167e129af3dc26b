package launch

import (
	"runtime"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/memview"
)

// Prepared is a kernel with its arguments, packed once for any number of
// launches, of any shape and on any stream. Arguments can be replaced in place.
//
// It keeps its arguments alive in the sense of Go, but not open: a launch with
// a buffer or a view that was closed meanwhile is an error that wraps
// [ErrClosed]. It may be used from several goroutines, which wait for each
// other.
type Prepared struct {
	k *Kernel
	u user // whose gate is entered for anything
	// mem are the arguments with memory, by their index.
	mem []prepared
}

// prepared is what an argument was, if it is something to be checked at each
// launch.
type prepared struct {
	index int
	at    place
	view  *memview.StridedMemoryView
	keep  any
}

// Prepare packs the arguments of a kernel: see [Launch] for what they may be
// and how they are checked. Whether the memory is in reach of a stream's device
// is checked with each launch.
func Prepare(k *Kernel, args ...any) (*Prepared, error) {
	if k == nil {
		return nil, invalid("prepare: no kernel")
	}
	if err := k.enter("prepare"); err != nil {
		return nil, err
	}
	defer k.exit()
	scratch, err := beginBlock(k, len(args)) // checks their number
	if err != nil {
		return nil, err
	}
	t, size := scratch.pointed, unknownBytes(len(args))
	scratch.end()
	if t != nil {
		size = t.size
	}
	b := newBlock(len(args), size)
	if b == nil {
		return nil, noMemory("prepare kernel", k)
	}
	b.aim(t)
	p := &Prepared{k: k}
	p.u.b = b
	for i, x := range args {
		if err := p.set(i, x); err != nil {
			return nil, err
		}
	}
	k.own.gates.Add(&p.u.Gate)
	return p, nil
}

// Kernel returns the kernel.
func (p *Prepared) Kernel() *Kernel {
	if p == nil {
		return nil
	}
	return p.k
}

// nothing is the error of a launch without a stream, or of what [Prepare] did
// not make.
func (p *Prepared) nothing() error {
	if p.Kernel() == nil {
		return closed("use of a prepared kernel")
	}
	return invalid("launch: no stream")
}

// Set replaces an argument. On an error the argument is as it was, unless it
// is a span with a number that does not fit.
func (p *Prepared) Set(i int, x any) error {
	if p.Kernel() == nil {
		return p.nothing()
	}
	p.u.Enter()
	defer p.u.Leave()
	if err := p.index(i); err != nil {
		return err
	}
	return p.set(i, x)
}

func (p *Prepared) index(i int) error {
	if i < 0 || i >= p.len() {
		return &ArgError{Kernel: p.k.info.name, Index: i, Detail: "the kernel has " + count(p.len(), "parameter")}
	}
	return nil
}

func (p *Prepared) len() int {
	if p.u.b.known {
		return len(p.u.b.params)
	}
	return len(p.u.b.own)
}

func (p *Prepared) set(i int, x any) error {
	p.u.b.last, p.u.b.buffers = nil, p.u.b.buffers[:0] // p has what it needs to know
	at, m := p.u.b.set(i, x)
	if m != nil {
		return p.u.b.fail(p.k, i, m)
	}
	p.forget(i)
	if at.dev.Type == 0 && at.buffer == nil {
		if _, empty := x.(*device.Buffer); !empty {
			return nil
		}
	}
	e := prepared{index: i, at: at, keep: x}
	switch x := x.(type) {
	case memview.StridedMemoryView:
		e.view = &x
	case *memview.StridedMemoryView:
		v := *x
		e.view = &v
	case Span:
		e.view = &x.view
	case *TensorMap:
		e.view = &x.view
	case *device.Buffer:
		e.at.buffer = x
	}
	p.mem = append(p.mem, e)
	return nil
}

// forget drops what is known about argument i.
func (p *Prepared) forget(i int) {
	for j := range p.mem {
		if p.mem[j].index == i {
			last := len(p.mem) - 1
			p.mem[j] = p.mem[last]
			p.mem[last] = prepared{}
			p.mem = p.mem[:last]
			return
		}
	}
}

// Scalar lists the types that [SetValue] takes.
type Scalar interface {
	bool | int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | uintptr |
		float32 | float64 | complex64 | complex128 | driver.DevicePtr | Number
}

// SetValue is [Prepared.Set] for a number or a raw pointer, without an
// allocation.
func SetValue[T Scalar](p *Prepared, i int, x T) error {
	if p.Kernel() == nil {
		return p.nothing()
	}
	p.u.Enter()
	defer p.u.Leave()
	if err := p.index(i); err != nil {
		return err
	}
	if _, m := p.u.b.setNumeric(i, any(x)); m != nil {
		return p.u.b.fail(p.k, i, m)
	}
	p.forget(i)
	return nil
}

// Launch queues the kernel with the arguments as they are now: see [Launch].
// It allocates nothing.
func (p *Prepared) Launch(s *device.Stream, cfg Config) error {
	if s == nil || p == nil || p.k == nil {
		return p.nothing()
	}
	u := &p.u
	u.Enter()
	// Nothing is deferred: until the gate is left nothing panics.
	if !s.Admits(&u.Pass) || p.k.closed.Load() || captures.active.Load() != 0 || len(p.mem) != 0 || !cfg.fits(u.limits, &u.b.call.Config) {
		return p.launch(s, &cfg)
	}
	res := u.b.call.Launch()
	if res != driver.Success {
		res = u.b.insist(p.k, res)
	}
	u.Leave()
	runtime.KeepAlive(s)
	runtime.KeepAlive(p)
	if res != driver.Success {
		return refused(p.k, s, res)
	}
	return nil
}

// launch is a launch with memory, or one that is not like the one before it.
// The caller is in the gate.
func (p *Prepared) launch(s *device.Stream, cfg *Config) error {
	defer p.u.Leave()
	if !isStream(s) {
		return closed(opLaunch)
	}
	k := p.k
	if ok, err := p.u.admit(s, k); err != nil {
		return err
	} else if ok {
		if skip, err := p.ready(s, cfg); err != nil || skip {
			return err
		}
		return p.queue(s, cfg)
	}
	if err := k.enter("launch"); err != nil {
		return err
	}
	defer k.exit()
	if skip, err := p.ready(s, cfg); err != nil || skip {
		return err
	}
	if err := s.Begin(opLaunch); err != nil {
		return err
	}
	defer s.End()
	p.u.Drop() // the block is aimed elsewhere now
	p.u.b.aimAt(s, k)
	return p.queue(s, cfg)
}

// ready checks the launch. skip means that the grid is empty.
func (p *Prepared) ready(s *device.Stream, cfg *Config) (skip bool, err error) {
	for i := range p.mem {
		if err := p.reach(&p.mem[i], s, cfg); err != nil {
			return false, err
		}
	}
	return cfg.ready(p.k, s.Device(), &p.u.b.call.Config)
}

// reach checks an argument with memory.
func (p *Prepared) reach(e *prepared, s *device.Stream, cfg *Config) error {
	m := reach(&e.at, s.Device(), cfg)
	if m == nil && e.view != nil {
		_, _, m = viewAddress(e.view)
	}
	if m != nil {
		return p.u.b.fail(p.k, e.index, m)
	}
	return nil
}

// queue launches what was checked; the buffers are in use meanwhile. Stream and
// kernel are in use.
func (p *Prepared) queue(s *device.Stream, cfg *Config) error {
	c, err := capturing(s)
	if err != nil {
		return err
	}
	begun := 0
	for i := range p.mem {
		e := &p.mem[i]
		if e.at.buffer != nil {
			if m := use(e.at.buffer, s, c); m != nil {
				err = p.u.b.fail(p.k, e.index, m)
				break
			}
		}
		begun++
	}
	if err == nil && c != nil {
		err = c.keepKernel(p.k)
	}
	if err == nil {
		err = p.u.b.launch(s, cfg, p.k, c != nil)
	}
	for i := range p.mem[:begun] {
		if b := p.mem[i].at.buffer; b != nil {
			b.End()
		}
	}
	runtime.KeepAlive(p)
	return err
}
