package clib

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/pathfinder"
)

// What the packages of single libraries share, so that each has only what its
// library does.

// Kept is a library that is found and opened when it is first asked for, and
// then kept. The zero Kept is ready.
type Kept[T any] struct {
	mu  sync.Mutex
	lib *T
}

// Load returns the library, which pathfinder knows by name; pkg begins the text
// of its errors. A failure is not kept.
func (k *Kept[T]) Load(pkg, name string, open func(pathfinder.Library) (*T, error)) (*T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lib != nil {
		return k.lib, nil
	}
	found, err := pathfinder.Load(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pkg, err)
	}
	l, err := open(found)
	if err != nil {
		return nil, err
	}
	k.lib = l
	return l, nil
}

// CodeName returns the name of a code, or prefix and its number if it has none.
func CodeName(names []string, prefix string, code int) string {
	if code >= 0 && code < len(names) {
		return names[code]
	}
	return prefix + strconv.Itoa(code)
}

// ErrorText words a failed call, with the log if there is one.
func ErrorText(pkg, op, code, log string) string {
	s := pkg + ": " + op + ": " + code
	if log = strings.TrimSpace(log); log != "" {
		s += "\n" + log
	}
	return s
}

// Log returns the text of a log of a program or a link.
func Log(size, data, handle uintptr) (string, int) {
	b, code := Bytes(size, data, handle)
	return strings.TrimRight(string(b), "\x00"), code
}

// Object is a handle of a library that is destroyed once: by Close, or when it
// is forgotten.
type Object struct {
	own     *objectOwner
	cleanup runtime.Cleanup
	mu      sync.Mutex
	closed  bool
}

// objectOwner outlives the Object, whose cleanup has it.
type objectOwner struct {
	handle  uintptr
	token   leak.Token
	destroy func(handle uintptr) error
}

func (o *objectOwner) end() error {
	o.token.Done()
	return o.destroy(o.handle)
}

// NewObject takes over a handle; kind is for reports of leaks. destroy must not
// refer to the Object, nor to what has it.
func NewObject(kind string, handle uintptr, destroy func(handle uintptr) error) *Object {
	o := &Object{own: &objectOwner{handle: handle, token: leak.Track(kind), destroy: destroy}}
	o.cleanup = runtime.AddCleanup(o, func(own *objectOwner) {
		go func() { _ = own.end() }() // not here: a cleanup does not wait
	}, o.own)
	return o
}

// Handle returns the handle, valid between Lock and Unlock.
func (o *Object) Handle() uintptr { return o.own.handle }

// Lock begins a use, which others wait for, unless the Object is closed. On
// success the caller unlocks.
func (o *Object) Lock() bool {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return false
	}
	return true
}

// Unlock ends a use.
func (o *Object) Unlock() { o.mu.Unlock() }

// Close destroys the handle. It may be called twice.
func (o *Object) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	o.cleanup.Stop()
	return o.own.end()
}
