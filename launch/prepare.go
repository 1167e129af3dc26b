package launch

import (
	"runtime"
	"sync"

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
	k  *Kernel
	mu sync.Mutex
	b  *block
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
	p := &Prepared{k: k, b: b}
	for i, x := range args {
		if err := p.set(i, x); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Kernel returns the kernel.
func (p *Prepared) Kernel() *Kernel { return p.k }

// Set replaces an argument. On an error the argument is as it was, unless it
// is a span with a number that does not fit.
func (p *Prepared) Set(i int, x any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	if p.b.known {
		return len(p.b.params)
	}
	return len(p.b.own)
}

func (p *Prepared) set(i int, x any) error {
	p.b.last, p.b.buffers = nil, p.b.buffers[:0] // p has what it needs to know
	at, m := p.b.set(i, x)
	if m != nil {
		return p.b.fail(p.k, i, m)
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.index(i); err != nil {
		return err
	}
	if _, m := p.b.setNumeric(i, any(x)); m != nil {
		return p.b.fail(p.k, i, m)
	}
	p.forget(i)
	return nil
}

// Launch queues the kernel with the arguments as they are now: see [Launch].
// It allocates nothing.
func (p *Prepared) Launch(s *device.Stream, cfg Config) error {
	if s == nil {
		return invalid("launch: no stream")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.launch(s, &cfg)
}

func (p *Prepared) launch(s *device.Stream, cfg *Config) error {
	k := p.k
	if err := k.enter("launch"); err != nil {
		return err
	}
	defer k.exit()
	for i := range p.mem {
		if err := p.reach(&p.mem[i], s, cfg); err != nil {
			return err
		}
	}
	if skip, err := cfg.ready(k, s.Device(), &p.b.shape); err != nil || skip {
		return err
	}
	return p.queue(s, cfg)
}

// reach checks an argument with memory.
func (p *Prepared) reach(e *prepared, s *device.Stream, cfg *Config) error {
	m := reach(&e.at, s.Device(), cfg)
	if m == nil && e.view != nil {
		_, _, m = viewAddress(e.view)
	}
	if m != nil {
		return p.b.fail(p.k, e.index, m)
	}
	return nil
}

// queue launches what was checked; the buffers are in use meanwhile.
func (p *Prepared) queue(s *device.Stream, cfg *Config) error {
	if err := s.Begin(opLaunch); err != nil {
		return err
	}
	defer s.End()
	c, err := capturing(s)
	if err != nil {
		return err
	}
	begun := 0
	for i := range p.mem {
		e := &p.mem[i]
		if e.at.buffer != nil {
			if m := use(e.at.buffer, s, c); m != nil {
				err = p.b.fail(p.k, e.index, m)
				break
			}
		}
		begun++
	}
	if err == nil && c != nil {
		err = c.keepKernel(p.k)
	}
	if err == nil {
		err = p.b.launch(s, cfg, p.k)
	}
	for i := range p.mem[:begun] {
		if b := p.mem[i].at.buffer; b != nil {
			b.End()
		}
	}
	runtime.KeepAlive(p)
	return err
}
