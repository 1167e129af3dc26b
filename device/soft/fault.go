package soft

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Fault says which driver calls fail, and how. Exactly one of three kinds:
//
//   - calls, by name and number: API, Nth, Count, Code, After, Sticky, Delay;
//   - allocations, by size: MinSize or Total, with ErrorOutOfMemory;
//   - slow calls: Delay without a Code.
//
// The zero value makes the next call of any kind fail with ErrorUnknown.
type Fault struct {
	// API is the entry point by its name without a version suffix, "cuMemAlloc". Empty, every
	// call counts, also those that the library makes on its own, such as to push a context.
	API string
	// Nth is the number of the first call that fails, counted from the injection on: 1, and 0,
	// is the next one.
	Nth int
	// Count is how many calls fail from there on: 0 is one, below 0 all.
	Count int
	// Code is what the call returns in place of its work: ErrorUnknown for [driver.Success],
	// unless the fault is a Delay or a size.
	Code driver.Result
	// After makes the call do its work before it returns Code, as the driver does when it reports
	// an earlier failure, so that an object is destroyed though its destruction failed.
	After bool
	// Sticky says that the context which is current for the call is lost, or all of them if none
	// is: every later call that uses it returns Code too, until the fault is taken away.
	Sticky bool
	// MinSize, if not 0, refuses allocations of so many bytes and more. Nth and Count apply.
	MinSize uint64
	// Total, if not 0, refuses allocations with which more than so many bytes, of all kinds
	// and devices, would be allocated.
	Total uint64
	// Delay is how long the call waits first.
	Delay time.Duration
}

// testing is what [InjectFault] needs of a testing.TB.
type testing interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// InjectFault is [Inject] for a test: it makes calls fail until the test t (a testing.TB) ends or the injection is removed.
// Several faults may be there at once: each counts for itself, and the first one set that wants
// a call to fail decides. Tests that inject faults must not run in parallel: a fault counts the
// calls of the whole process.
func InjectFault(t testing, f Fault) *Injection {
	t.Helper()
	i, err := Inject(f)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(i.Remove)
	return i
}

// check completes a fault and refuses one that could never happen.
func (f *Fault) check() error {
	if f.API != "" && !entryPoint(f.API) {
		return fmt.Errorf("soft: fault: the driver has no entry point %q: %w", f.API, driver.ErrInvalidValue)
	}
	if f.Nth < 0 {
		return fmt.Errorf("soft: fault: call number %d: %w", f.Nth, driver.ErrInvalidValue)
	}
	if f.MinSize != 0 || f.Total != 0 {
		if f.API != "" || f.After || f.Sticky || f.Delay != 0 || f.Code != driver.Success && f.Code != driver.ErrorOutOfMemory {
			return fmt.Errorf("soft: fault: a size goes with no other kind of fault: %w", driver.ErrInvalidValue)
		}
		return nil
	}
	f.Nth = max(f.Nth, 1)
	if f.Code == driver.Success {
		if f.Delay == 0 {
			f.Code = driver.ErrorUnknown
		} else if f.After || f.Sticky {
			return fmt.Errorf("soft: fault: a slow call has no code to give: %w", driver.ErrInvalidValue)
		}
	}
	return nil
}

func entryPoint(name string) bool {
	for e := range driver.Entries {
		if e.Name == name {
			return true
		}
	}
	return false
}

// parseFaults reads HANDOFF_SOFT_FAULT: faults with commas between them, each of the form
// api:nth:code with further words behind more colons.
func parseFaults(s string) ([]Fault, error) {
	var all []Fault
	for one := range strings.SplitSeq(s, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		f, err := parseFault(one)
		if err != nil {
			return nil, fmt.Errorf("soft: HANDOFF_SOFT_FAULT %q: %w", one, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// ParseFault reads a fault as HANDOFF_SOFT_FAULT has it: api:nth:code, with * for any call, a +
// behind the number for that call and all later ones, and a code by number or by name; then any of
// the words after, sticky, min=BYTES, total=BYTES and delay=DURATION, with a colon before each.
//
//	cuMemAlloc:1:2                          the first cuMemAlloc has no memory
//	*:10:ILLEGAL_ADDRESS:sticky             the tenth call loses its context
//	*:1+:0:min=1048576                      no allocation of 1 MiB or more
//	cuStreamSynchronize:1+:0:delay=10ms     slow
func ParseFault(s string) (Fault, error) {
	f, err := parseFault(s)
	if err != nil {
		return f, fmt.Errorf("soft: fault %q: %w", s, err)
	}
	return f, nil
}

func parseFault(s string) (f Fault, err error) {
	words := strings.Split(s, ":")
	if len(words) < 3 {
		return f, fmt.Errorf("want api:nth:code: %w", driver.ErrInvalidValue)
	}
	if words[0] != "*" {
		f.API = words[0]
	}
	nth, all := strings.CutSuffix(words[1], "+")
	if all {
		f.Count = -1
	}
	if f.Nth, err = strconv.Atoi(nth); err != nil || f.Nth < 1 {
		return f, fmt.Errorf("call number %q: %w", words[1], driver.ErrInvalidValue)
	}
	if f.Code, err = parseCode(words[2]); err != nil {
		return f, err
	}
	for _, w := range words[3:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "after":
			f.After = true
		case "sticky":
			f.Sticky = true
		case "min":
			f.MinSize, err = strconv.ParseUint(value, 0, 64)
		case "total":
			f.Total, err = strconv.ParseUint(value, 0, 64)
		case "delay":
			f.Delay, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown word %q: %w", w, driver.ErrInvalidValue)
		}
		if err != nil {
			return f, err
		}
	}
	return f, f.check()
}

// parseCode takes a number, CUDA_ERROR_OUT_OF_MEMORY or OUT_OF_MEMORY.
func parseCode(s string) (driver.Result, error) {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return driver.Result(n), nil
	}
	full := strings.ToUpper(s)
	if !strings.HasPrefix(full, "CUDA_") {
		full = "CUDA_ERROR_" + full
	}
	for r := driver.Result(0); r < 1000; r++ {
		if r.Name() == full {
			return r, nil
		}
	}
	return 0, fmt.Errorf("no code has the name %q: %w", s, driver.ErrInvalidValue)
}
