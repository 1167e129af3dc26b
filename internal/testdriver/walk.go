package testdriver

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/leak"
)

// Operation is something public that calls the driver, in a form that can be done over and over.
type Operation struct {
	// Name is the function or method, "Stream.Wait", perhaps with a comma and what is special, and
	// Covers are others that Do calls too.
	Name   string
	Covers []string
	// Once says that an answer is kept for the life of the process, so that it is asked for
	// once: such operations come first and are not repeated after a success.
	Once bool
	// Do does it, checks what came out, and closes what it made, also after an error.
	Do func() error
	// Max ends the walk of an operation that asks over and over until work is done, so that the
	// number of its calls is not fixed: the calls before that come first. 0 is no end.
	Max int
	// Brief walks with no context current and with two of the codes only: for operations of many
	// calls.
	Brief bool
	// MakesGood are entry points whose failure need not be an error: the operation does
	// without, or does it in another way.
	MakesGood []string
	// Keeps are entry points after whose failure memory is kept rather than given away while it
	// may be in use.
	Keeps []string
}

// Walk makes the n-th driver call of operations fail, for n = 1 and so on until nothing fails any
// more, with several codes, and looks at what is left each time. It needs the software device.
type Walk struct {
	// Operations are what is walked, in this order.
	Operations []Operation
	// Exempt are public functions that make no driver call, or none of their own: the reason,
	// and the names with spaces between them. A name may end in a star.
	Exempt map[string]string
	// Setup runs before anything fails. It may be nil.
	Setup func() error
	// Typed says what is wrong with the error of an operation whose driver call failed with a
	// code, or nil.
	Typed func(err error, code driver.Result) error
	// Settle waits until nothing is held back any more.
	Settle func(ctx context.Context) error
	// State is a struct of numbers of the package that have to be as before.
	State func() any
}

// Modes of failure. Where the context is lost, nothing can be given back to the driver any more.
var walkModes = []struct {
	code   driver.Result
	sticky bool
}{
	{driver.ErrorOutOfMemory, false},
	{driver.ErrorNotSupported, false},
	{driver.ErrorInvalidContext, false},
	{driver.ErrorSystemNotReady, false},
	{driver.ErrorIllegalAddress, true},
}

// givers are the entry points that give something back, with the field of soft.Live that counts it.
// If one fails without having done it, one thing is left, and nobody can do anything about it.
var givers = map[string]string{
	"cuCtxDestroy": "Contexts", "cuDevicePrimaryCtxRelease": "Contexts", "cuStreamDestroy": "Streams", "cuEventDestroy": "Events",
	"cuMemPoolDestroy": "Pools", "cuMemFree": "Allocations", "cuMemFreeAsync": "Allocations", "cuMemFreeHost": "Allocations",
	"cuMemHostUnregister": "Allocations", "cuModuleUnload": "Modules", "cuLibraryUnload": "Libraries", "cuGraphDestroy": "Graphs",
	"cuGraphExecDestroy": "GraphExecs",
}

// raceMax is where walks end under the race detector.
const raceMax = 60

// walkLimit is how long one operation may take.
const walkLimit = 30 * time.Second

// walker is a walk under way.
type walker struct {
	*Walk
	d       *driver.Driver
	runs    int
	failed  int
	seen    map[string]bool // operation and entry point
	apis    map[string]bool
	good    map[string]int
	problem []string
	told    map[string]bool
	doing   string // operation and entry point
}

// Run walks. The test is one process's: nothing else may call the driver meanwhile.
func (w *Walk) Run(t *testing.T) {
	t.Helper()
	w.complete(t)
	x := &walker{Walk: w, d: Open(t), seen: map[string]bool{}, apis: map[string]bool{}, good: map[string]int{}, told: map[string]bool{}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bystander, res := x.d.ContextNew(0, 0)
	require.NoError(t, res.Err())
	defer func() { require.NoError(t, x.d.CtxDestroy(bystander).Err()) }()
	_, res = x.d.ContextSwap(0)
	require.NoError(t, res.Err())
	if w.Setup != nil {
		require.NoError(t, w.Setup())
	}
	for _, op := range w.Operations {
		if op.Once {
			x.once(t, op)
		}
	}
	for _, op := range w.Operations {
		if race { // ten times as slow: what differs there are the goroutines, not the codes
			op.Brief = true
			if op.Max == 0 || op.Max > raceMax {
				op.Max = raceMax
			}
		}
		if only := os.Getenv(WalkEnv); op.Once || only != "1" && !strings.Contains(op.Name, only) {
			continue
		}
		start, runs := time.Now(), x.runs
		for _, current := range []driver.ContextHandle{0, bystander} {
			if op.Brief && current != 0 {
				continue
			}
			_, res := x.d.ContextSwap(current)
			require.NoError(t, res.Err())
			for _, m := range walkModes {
				if !op.Brief || m.code == driver.ErrorOutOfMemory || m.sticky {
					x.walk(t, op, m.code, m.sticky)
				}
			}
			x.after(t, op)
		}
		_, res := x.d.ContextSwap(0)
		require.NoError(t, res.Err())
		if testing.Verbose() {
			fmt.Printf("fault walk of %s: %d runs, %v\n", op.Name, x.runs-runs, time.Since(start).Round(time.Millisecond))
		}
	}
	fmt.Printf("fault walk: %d operations, %d runs, %d calls failed, %d entry points, made good: %v\n",
		len(w.Operations), x.runs, x.failed, len(x.apis), x.good)
	for _, p := range x.problem {
		t.Error(p)
	}
}

// once walks an operation whose answer is kept: each number with every code, as the first success is
// the last.
func (x *walker) once(t *testing.T, op Operation) {
	t.Helper()
	for n := 1; n < 500; n++ {
		hit := false
		for _, m := range walkModes {
			if x.step(op, soft.Fault{Nth: n, Code: m.code, Sticky: m.sticky}) {
				hit = true
			}
		}
		if !hit {
			return
		}
	}
	t.Errorf("%s never ends", op.Name)
}

// walk walks an operation that can be repeated.
func (x *walker) walk(t *testing.T, op Operation, code driver.Result, sticky bool) {
	t.Helper()
	for range 2 { // what it needs is loaded and pooled
		if err := x.clean(op); err != nil {
			x.fail("%s: without a fault: %v", op.Name, err)
			return
		}
	}
	for n := 1; n < 500; n++ {
		if !x.step(op, soft.Fault{Nth: n, Code: code, Sticky: sticky}) || n == op.Max {
			return
		}
	}
	t.Errorf("%s never ends", op.Name)
}

// after lets what gives something back tell of older work, once it is done.
func (x *walker) after(t *testing.T, op Operation) {
	t.Helper()
	for _, api := range slices.Sorted(maps.Keys(givers)) {
		for n := 1; x.seen[op.Name+api] && n <= 20; n++ {
			if !x.step(op, soft.Fault{API: api, Nth: n, Code: driver.ErrorLaunchFailed, After: true}) {
				break
			}
		}
	}
}

// fail notes a problem, the first of its kind only.
func (x *walker) fail(format string, args ...any) {
	kind := fmt.Sprint(x.doing, format, len(args))
	if !x.told[kind] {
		x.told[kind] = true
		x.problem = append(x.problem, fmt.Sprintf(format, args...))
	}
}

// clean does an operation without a fault.
func (x *walker) clean(op Operation) error {
	err := x.do(op, "no fault")
	return errors.Join(err, x.settle())
}

// step does an operation with a fault and looks at everything. It says whether a call failed.
func (x *walker) step(op Operation, f soft.Fault) bool {
	before := x.look()
	name := fmt.Sprintf("%s, call %d, %v", op.Name, f.Nth, f.Code.Name())
	if f.After {
		name += " after its work"
	}
	in, err := soft.Inject(f)
	if err != nil {
		x.fail("%v", err)
		return false
	}
	err = x.do(op, name)
	if late := x.settle(); late != nil { // deferred work may meet the fault too
		err = errors.Join(err, late, x.settle())
	}
	in.Remove()
	x.runs++
	api := in.First()
	if api == "" {
		if err != nil {
			x.fail("%s: nothing failed, and yet %v", name, err)
		}
		return false
	}
	x.failed++
	x.seen[op.Name+api], x.apis[api] = true, true
	name += " in " + api
	x.doing = op.Name + api
	if err != nil {
		if bad := x.Typed(err, f.Code); bad != nil {
			x.fail("%s: %v (error %T: %v)", name, bad, err, err)
		}
	} else if !x.mayPass(op, api, f.Code) {
		x.fail("%s: no error", name)
	}
	x.compare(op, name, api, f, before, x.look())
	if !op.Once {
		if err := x.clean(op); err != nil {
			x.fail("%s: the next time: %v", name, err)
		}
	}
	return true
}

// mayPass says whether the failure of an entry point need not be an error.
func (x *walker) mayPass(op Operation, api string, code driver.Result) bool {
	if slices.Contains(op.MakesGood, api) || givers[api] == "Events" || // of the pool
		api == "cuCtxPopCurrent" || // what was current is so again
		code == driver.ErrorInvalidContext { // made again, in its context
		x.good[api]++
		return true
	}
	return false
}

// do runs an operation with a time limit; a panic is an error.
func (x *walker) do(op Operation, what string) (err error) {
	late := time.AfterFunc(walkLimit, func() {
		buf := make([]byte, 1<<20)
		panic(fmt.Sprintf("%s: hangs\n%s", what, buf[:runtime.Stack(buf, true)]))
	})
	defer late.Stop()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return op.Do()
}

func (x *walker) settle() error {
	ctx, cancel := context.WithTimeout(context.Background(), walkLimit)
	defer cancel()
	return x.Settle(ctx)
}

// sight is what is compared.
type sight struct {
	live    soft.Live
	state   any
	objects []leak.Record
	current driver.ContextHandle
}

func (x *walker) look() sight {
	// The events that the driver package keeps for later are no leak.
	for i := range int32(16) {
		if ctx, active, res := primary(x.d, i); res == driver.Success && active {
			x.d.ForgetContext(ctx, false)
		}
	}
	s := sight{live: soft.LiveObjects(), state: x.State(), objects: leak.Live()}
	s.current, _ = x.d.CtxGetCurrent()
	return s
}

// primary returns the primary context of a device if somebody holds it.
func primary(d *driver.Driver, dev int32) (driver.ContextHandle, bool, driver.Result) {
	if _, active, res := d.DevicePrimaryCtxGetState(driver.Device(dev)); res != driver.Success || active == 0 {
		return 0, false, res
	}
	ctx, res := d.DevicePrimaryCtxRetain(driver.Device(dev))
	if res == driver.Success {
		res = d.DevicePrimaryCtxRelease(driver.Device(dev))
	}
	return ctx, res == driver.Success, res
}

func (x *walker) compare(op Operation, name, api string, f soft.Fault, before, after sight) {
	if before.current != after.current {
		x.fail("%s: the current context was %#x and is %#x", name, before.current, after.current)
		_, _ = x.d.ContextSwap(before.current)
	}
	if before.state != after.state && !op.Once {
		x.fail("%s: was %+v, is %+v", name, before.state, after.state)
	}
	if len(before.objects) != len(after.objects) {
		x.fail("%s: %d objects of Go are left; the last was made at\n%s", name, len(after.objects)-len(before.objects), after.objects[len(after.objects)-1].Stack)
	}
	if f.Sticky {
		return // the context is lost, with what was in it
	}
	kept := ""
	if !f.After {
		kept = givers[api]
	}
	if f.Code == driver.ErrorInvalidContext && api == "cuEventRecord" {
		kept = "Events" // one whose context is said to be gone is not touched again
	}
	with := ""
	if kept == "Graphs" {
		with = "Allocations" // the graph's
	}
	a, b := reflect.ValueOf(before.live), reflect.ValueOf(after.live)
	for i := range a.NumField() {
		field := a.Type().Field(i).Name
		more := b.Field(i).Int() - a.Field(i).Int()
		if more == 0 || more == 1 && (field == kept || field == with || field == "Allocations" && slices.Contains(op.Keeps, api)) ||
			op.Once && (field == "Contexts" || field == "Libraries") { // kept
			continue
		}
		x.fail("%s: the driver has %+d %s", name, more, field)
	}
}

// complete fails a test whose operations do not cover the public functions of the package in the
// current folder.
func (w *Walk) complete(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("doc.go"); errors.Is(err, fs.ErrNotExist) {
		return // a test binary without its source
	}
	covered := map[string]bool{}
	for _, op := range w.Operations {
		name, _, _ := strings.Cut(op.Name, ",")
		for _, name := range append([]string{name}, op.Covers...) {
			covered[name] = true
		}
	}
	exempt := map[string]bool{} // and whether there is such a function
	for _, names := range w.Exempt {
		for _, name := range strings.Fields(names) {
			exempt[name] = false
		}
	}
	for _, name := range publicFunctions(t) {
		free, whole := false, false
		for pattern := range exempt {
			prefix, star := strings.CutSuffix(pattern, "*")
			if pattern == name || star && strings.HasPrefix(name, prefix) {
				free, whole, exempt[pattern] = true, whole || !star, true
			}
		}
		switch {
		case covered[name] && whole:
			t.Errorf("%s is walked and exempt", name)
		case !covered[name] && !free:
			t.Errorf("%s is public and not walked: add an operation, or exempt it with the reason", name)
		}
		delete(covered, name)
	}
	for name := range covered {
		t.Errorf("%s is walked, but is no public function", name)
	}
	for pattern, used := range exempt {
		if !used {
			t.Errorf("%s is exempt, but there is no such function", pattern)
		}
	}
}

// publicFunctions lists the exported functions, and the exported methods of exported types, of the
// package in the current folder: "Open", "Stream.Wait".
func publicFunctions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	all := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			text := fn.Name.Name
			if fn.Recv != nil {
				recv := receiver(fn.Recv.List[0].Type)
				if !ast.IsExported(recv) {
					continue
				}
				text = recv + "." + text
			}
			all[text] = true
		}
	}
	var list []string
	for name := range all {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// WalkEnv marks the process of a walk: the answers that a process keeps have to be unknown yet. Its
// value is 1, or a part of the names of the operations to walk.
const WalkEnv = "HANDOFF_FAULT_WALK"

// InProcess runs the calling test in a process of its own and prints what it said. It returns true
// in that process.
func InProcess(t *testing.T) bool {
	t.Helper()
	if Real() || !softBuilt {
		t.Skip("needs the software device, which can be made to fail")
	}
	if os.Getenv(WalkEnv) != "" {
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := child(ctx, t.Name())
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "fault walk") {
			t.Log(strings.TrimSpace(line))
		}
	}
	require.NoError(t, err, out)
	return false
}
