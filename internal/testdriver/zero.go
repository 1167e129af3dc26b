package testdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-handoff/handoff/device/driver"
)

// Zero calls every public function of a package, and every public method of nil and of what nobody made, with
// arguments of the same sort and with plausible ones: none may panic.
type Zero struct {
	// Types has a value of each exported type that has methods, of each generic one an instance.
	Types []any
	// Functions are the exported functions by name, of each generic one an instance.
	Functions map[string]any
	// Live are arguments that work, taken wherever their type fits.
	Live []any
	// Errors are what the errors of methods of nil and of zero values wrap, one of them each. None means that they
	// need not fail.
	Errors []error
	// Quiet are methods that return no error all the same: the reason, and the names, as "Stream.Close", with spaces
	// between them.
	Quiet map[string]string
	// Exempt are functions and methods, as "Open" or "Stream.Wait", that may panic and are not called, in the
	// same form. "Pass.*" is all methods of a type.
	Exempt map[string]string

	told map[string]bool // what was reported
}

// zeroLimit is how long one call may take.
const zeroLimit = 20 * time.Second

// Run makes the calls.
func (z *Zero) Run(t *testing.T) {
	t.Helper()
	z.told = map[string]bool{}
	exempt, quiet := namesOf(z.Exempt), namesOf(z.Quiet)
	z.complete(t, exempt)
	t.Chdir(t.TempDir()) // what is made of a name stays there
	for name, f := range z.Functions {
		if !exempt[name] {
			z.calls(t, name, reflect.ValueOf(f), 0, nil)
		}
	}
	for _, x := range z.Types {
		typ := reflect.TypeOf(x)
		name, _, _ := strings.Cut(typ.Name(), "[")
		ptr := reflect.PointerTo(typ)
		for i := range ptr.NumMethod() {
			m := ptr.Method(i)
			full := name + "." + m.Name
			if exempt[full] || exempt[name+".*"] {
				continue
			}
			judge := z.judge
			if quiet[full] || len(z.Errors) == 0 {
				judge = nil
			}
			z.calls(t, full+" of a zero value", m.Func, 1, judge, reflect.New(typ))
			// Nil is not tried where the language itself panics, nor as an error, whose fields are read anyway.
			if _, byValue := typ.MethodByName(m.Name); !byValue && !ptr.Implements(reflect.TypeFor[error]()) {
				z.calls(t, full+" of nil", m.Func, 1, judge, reflect.Zero(ptr))
			}
		}
	}
}

// namesOf are the names in a map of reasons.
func namesOf(reasons map[string]string) map[string]bool {
	all := map[string]bool{}
	for _, names := range reasons {
		for _, name := range strings.Fields(names) {
			all[name] = true
		}
	}
	return all
}

// judge says what is wrong with the results of a method of nothing, or "".
func (z *Zero) judge(out []reflect.Value) string {
	if len(out) == 0 || out[len(out)-1].Type() != reflect.TypeFor[error]() {
		return ""
	}
	err, _ := out[len(out)-1].Interface().(error)
	if err == nil {
		return "no error"
	}
	for _, known := range z.Errors {
		if errors.Is(err, known) {
			return ""
		}
	}
	return fmt.Sprintf("an error of another kind: %v", err)
}

// calls calls a function with its first arguments as given and the others as they come.
func (z *Zero) calls(t *testing.T, name string, f reflect.Value, given int, judge func([]reflect.Value) string, args ...reflect.Value) {
	t.Helper()
	n := f.Type().NumIn()
	choices := make([][]reflect.Value, n)
	most := 1
	for i := given; i < n; i++ {
		typ := f.Type().In(i)
		choices[i] = z.choices(typ)
		if f.Type().IsVariadic() && i == n-1 {
			choices[i] = []reflect.Value{reflect.Zero(typ)}
			for _, x := range z.choices(typ.Elem()) {
				choices[i] = append(choices[i], reflect.Append(reflect.Zero(typ), x))
			}
		}
		most = max(most, len(choices[i]))
	}
	in := make([]reflect.Value, n)
	copy(in, args)
	for k := range most { // all alike: all zero first
		for i := given; i < n; i++ {
			in[i] = choices[i][min(k, len(choices[i])-1)]
		}
		z.call(t, name, f, in, judge)
	}
	for i := given; i < n; i++ { // one, the others as plausible as can be
		for j := given; j < n; j++ {
			in[j] = choices[j][len(choices[j])-1]
		}
		for _, in[i] = range choices[i] {
			z.call(t, name, f, in, judge)
		}
	}
}

// choices are arguments of a type, the plausible ones last.
func (z *Zero) choices(typ reflect.Type) []reflect.Value {
	if typ == reflect.TypeFor[context.Context]() {
		return []reflect.Value{reflect.ValueOf(context.Background())}
	}
	list := []reflect.Value{reflect.Zero(typ)}
	switch typ.Kind() {
	case reflect.Pointer:
		if typ != reflect.TypeFor[*driver.Driver]() {
			list = append(list, reflect.New(typ.Elem()))
		}
	case reflect.Interface:
		for _, x := range z.Types {
			v := reflect.ValueOf(x)
			for _, v := range []reflect.Value{reflect.Zero(reflect.PointerTo(v.Type())), reflect.New(v.Type()), reflect.Zero(v.Type())} {
				_, byValue := v.Type(), v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Implements(typ) && typ.NumMethod() > 0
				if v.Type().AssignableTo(typ) && !byValue {
					list = append(list, v)
				}
			}
		}
	case reflect.Bool:
		list = append(list, reflect.ValueOf(true).Convert(typ))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		list = append(list, reflect.ValueOf(-1).Convert(typ), reflect.ValueOf(1).Convert(typ))
	case reflect.String:
		list = append(list, reflect.ValueOf("x").Convert(typ))
	case reflect.Slice:
		one := reflect.MakeSlice(typ, 1, 1)
		list = append(list, one)
	case reflect.Func:
		list = append(list, reflect.MakeFunc(typ, func([]reflect.Value) []reflect.Value { return zeros(typ) }))
	}
	for _, x := range z.Live {
		if v := reflect.ValueOf(x); v.Type().AssignableTo(typ) {
			list = append(list, v)
		}
	}
	return list
}

// zeros are results of a function that does nothing; it goes on if it is asked.
func zeros(f reflect.Type) []reflect.Value {
	out := make([]reflect.Value, f.NumOut())
	for i := range out {
		out[i] = reflect.Zero(f.Out(i))
		if out[i].Kind() == reflect.Bool {
			out[i] = reflect.ValueOf(true).Convert(f.Out(i))
		}
	}
	return out
}

// call makes a call and gives back what came of it.
func (z *Zero) call(t *testing.T, name string, f reflect.Value, in []reflect.Value, judge func([]reflect.Value) string) {
	t.Helper()
	in = slices.Clone(in)
	done := make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			}
			close(done)
		}()
		var out []reflect.Value
		if f.Type().IsVariadic() {
			out = f.CallSlice(in)
		} else {
			out = f.Call(in)
		}
		for _, v := range out {
			if !z.live(v) {
				finish(v)
			}
		}
		if judge != nil {
			if bad := judge(out); bad != "" {
				done <- bad
			}
		}
	}()
	select {
	case text, failed := <-done:
		if failed && !z.told[name] {
			z.told[name] = true
			t.Errorf("%s, with %s: %s", name, describe(in), text)
		}
	case <-time.After(zeroLimit):
		t.Fatalf("%s, with %s: hangs", name, describe(in))
	}
}

// live says whether a result is one of the arguments that work, which go on.
func (z *Zero) live(v reflect.Value) bool {
	for _, x := range z.Live {
		if x := reflect.ValueOf(x); v.Kind() == reflect.Pointer && v.Type() == x.Type() && v.Pointer() == x.Pointer() {
			return true
		}
	}
	return false
}

// finish runs an iterator or function that a call returned, and closes an object.
func finish(v reflect.Value) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return
	}
	if err, ok := v.Interface().(error); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		_ = err.Error()
		return
	}
	if v.Kind() == reflect.Func {
		if v.IsNil() || v.Type().NumIn() > 1 {
			return
		}
		var in []reflect.Value
		if v.Type().NumIn() == 1 {
			yield := v.Type().In(0)
			if yield.Kind() != reflect.Func {
				return
			}
			in = append(in, reflect.MakeFunc(yield, func([]reflect.Value) []reflect.Value { return zeros(yield) }))
		}
		v.Call(in)
		return
	}
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return
	}
	for _, end := range []string{"Close", "Release", "End"} {
		if m := v.MethodByName(end); m.IsValid() && m.Type().NumIn() == 0 {
			for _, v := range m.Call(nil) {
				finish(v)
			}
			return
		}
	}
}

func describe(in []reflect.Value) string {
	var parts []string
	for _, v := range in {
		text := v.Type().String()
		switch {
		case v.Kind() == reflect.Slice && v.Len() == 1 && v.Type().Elem().Kind() == reflect.Interface && !v.Index(0).IsNil():
			text += " of " + v.Index(0).Elem().Type().String()
		case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().IsZero():
			text += " (zero)"
		case v.IsZero():
			text += " nil"
		case v.Kind() == reflect.Interface:
			text += " of " + v.Elem().Type().String()
		}
		parts = append(parts, text)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// complete fails a test that leaves out types or functions of the package in the current folder, or names what
// there is not.
func (z *Zero) complete(t *testing.T, exempt map[string]bool) {
	t.Helper()
	if _, err := os.Stat("doc.go"); errors.Is(err, fs.ErrNotExist) {
		return // a test binary without its source
	}
	types, known := map[string]bool{}, map[string]bool{}
	for _, x := range z.Types {
		name, _, _ := strings.Cut(reflect.TypeOf(x).Name(), "[")
		types[name], known[name+".*"] = true, true
		for ptr, i := reflect.PointerTo(reflect.TypeOf(x)), 0; i < ptr.NumMethod(); i++ {
			known[name+"."+ptr.Method(i).Name] = true
		}
	}
	public := publicFunctions(t)
	for _, name := range public {
		known[name] = true
		typ, _, method := strings.Cut(name, ".")
		if method && !types[typ] {
			t.Errorf("%s is public, but no zero %s is tried: add it to Types", name, typ)
			types[typ] = true
		}
		if _, listed := z.Functions[name]; !method && !listed && !exempt[name] {
			t.Errorf("%s is public, but not called with zero values: add it to Functions", name)
		}
	}
	for name := range z.Functions {
		if !slices.Contains(public, name) {
			t.Errorf("%s is no public function", name)
		}
	}
	for name := range exempt {
		if !known[name] {
			t.Errorf("%s is exempt, but there is no such function", name)
		}
	}
	for name := range namesOf(z.Quiet) {
		if !known[name] {
			t.Errorf("%s is to be quiet, but there is no such method", name)
		}
	}
}
