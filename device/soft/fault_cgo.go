//go:build cgo && linux

package soft

import (
	"slices"
	"sync"
	"time"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft/internal/engine"
)

// Injection is a fault that has been set. Its methods may be called from any thread.
type Injection struct {
	f Fault

	mu    sync.Mutex
	seen  int    // calls that the fault is about
	hits  int    // of those, the ones that failed
	first string // the first call that failed
	gone  bool
}

// injections are all faults and slow streams, oldest first.
var injections struct {
	sync.Mutex
	faults []*Injection
	holds  []*hold
}

// hold keeps back the work of a stream.
type hold struct {
	stream engine.Handle // 0 for all
	gate   chan struct{} // closed by release, or nil
	delay  time.Duration
}

// Inject makes calls fail from now on, until [Injection.Remove]. See [InjectFault]. It starts the
// software device if need be.
func Inject(f Fault) (*Injection, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	e, err := start()
	if err != nil {
		return nil, err
	}
	i := &Injection{f: f}
	injections.Lock()
	defer injections.Unlock()
	injections.faults = append(injections.faults, i)
	install(e)
	return i, nil
}

// Remove takes the fault away and makes the contexts usable that faults had lost. Only the first
// call has an effect.
func (i *Injection) Remove() {
	i.mu.Lock()
	gone := i.gone
	i.gone = true
	i.mu.Unlock()
	if gone {
		return
	}
	injections.Lock()
	defer injections.Unlock()
	e := std.e.Load()
	k := slices.Index(injections.faults, i)
	injections.faults = slices.Delete(slices.Clone(injections.faults), k, k+1)
	install(e)
	if i.f.Sticky {
		e.Heal()
	}
}

// Calls is how many calls, or allocations, the fault has seen, those that failed included.
func (i *Injection) Calls() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen
}

// Hits is how many of them failed, or were slow.
func (i *Injection) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// First is the entry point of the first call that failed, "allocation" for one by its size, and
// "" while none has.
func (i *Injection) First() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first
}

// strike counts a call and says whether it fails.
func (i *Injection) strike(what string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.gone {
		return false
	}
	i.seen++
	if past := i.seen - max(i.f.Nth, 1); past < 0 || i.f.Count >= 0 && past >= max(i.f.Count, 1) {
		return false
	}
	i.hits++
	if i.first == "" {
		i.first = what
	}
	return true
}

// ReuseHandles makes the device use the handles of destroyed contexts again, and those of the streams, events,
// modules and functions that went with them, as long as the test t (a testing.TB) runs: as a driver does whose
// handles are addresses. Otherwise no handle comes twice.
func ReuseHandles(t testing) {
	t.Helper()
	e, err := start()
	if err != nil {
		t.Fatalf("%v", err)
		return
	}
	e.ReuseHandles(true)
	t.Cleanup(func() { e.ReuseHandles(false) })
}

// HangStream holds back the work of a stream: what is queued on it, also by calls to come, does
// not begin until release is called. Handle 0 means every stream, 1 and 2 the default streams
// of all contexts. Calls that wait for the work wait as long.
func HangStream(s driver.StreamHandle) (release func(), err error) {
	gate := make(chan struct{})
	remove, err := holdWork(&hold{stream: engine.Handle(s), gate: gate})
	if err != nil {
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(func() { remove(); close(gate) }) }, nil
}

// SlowStream makes each piece of work of a stream begin d later, until stop is called. Handle 0
// means every stream.
func SlowStream(s driver.StreamHandle, d time.Duration) (stop func(), err error) {
	remove, err := holdWork(&hold{stream: engine.Handle(s), delay: d})
	if err != nil {
		return nil, err
	}
	var once sync.Once
	return func() { once.Do(remove) }, nil
}

func holdWork(h *hold) (remove func(), err error) {
	e, err := start()
	if err != nil {
		return nil, err
	}
	injections.Lock()
	defer injections.Unlock()
	injections.holds = append(injections.holds, h)
	install(e)
	return func() {
		injections.Lock()
		defer injections.Unlock()
		k := slices.Index(injections.holds, h)
		injections.holds = slices.Delete(slices.Clone(injections.holds), k, k+1)
		install(e)
	}, nil
}

// install gives the engine what is injected now. The slices are replaced, never changed, once the
// engine has them. The caller holds the lock.
func install(e *engine.Engine) {
	faults, holds := slices.Clip(injections.faults), slices.Clip(injections.holds)
	if len(faults)+len(holds) == 0 {
		e.SetInjector(nil)
		return
	}
	in := &engine.Injector{
		Call: func(api string) engine.Verdict { return verdict(faults, api) },
		Alloc: func(n uint64, live func() uint64) bool {
			ok := true
			for _, i := range faults {
				f := &i.f
				hit := f.MinSize != 0 && n >= f.MinSize
				hit = hit || f.Total != 0 && (n > f.Total || live() > f.Total-n)
				if hit && i.strike("allocation") {
					ok = false
				}
			}
			return ok
		},
	}
	if len(holds) > 0 {
		in.Work = func(s engine.Handle) {
			for _, h := range holds {
				if h.stream != 0 && h.stream != s {
					continue
				}
				if h.gate != nil {
					<-h.gate
				}
				time.Sleep(h.delay)
			}
		}
	}
	e.SetInjector(in)
}

// verdict asks every fault, so that each counts, and takes the first that has something to say.
func verdict(faults []*Injection, api string) (v engine.Verdict) {
	for _, i := range faults {
		f := &i.f
		if f.MinSize != 0 || f.Total != 0 || f.API != "" && f.API != api || !i.strike(api) {
			continue
		}
		if v == (engine.Verdict{}) {
			v = engine.Verdict{Code: engine.Code(f.Code), After: f.After, Sticky: f.Sticky, Delay: f.Delay}
		}
	}
	return v
}

// injectEnvironment sets the faults of HANDOFF_SOFT_FAULT in a new engine.
func injectEnvironment(e *engine.Engine, s string) error {
	all, err := parseFaults(s)
	if err != nil || len(all) == 0 {
		return err
	}
	injections.Lock()
	defer injections.Unlock()
	for _, f := range all {
		injections.faults = append(injections.faults, &Injection{f: f})
	}
	install(e)
	return nil
}
