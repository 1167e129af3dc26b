package device

import (
	"sync"
	"weak"
)

// registry finds the Go object of a raw handle, so that one that is seen again
// does not get a second owner. It does not keep objects alive.
type registry[K comparable, T any] struct {
	mu sync.Mutex
	m  map[K]weak.Pointer[T]
}

// resolve returns the live object of a key, or makes one. ok says whether an
// object that is found may still be used.
func (r *registry[K, T]) resolve(key K, ok func(*T) bool, create func() (*T, error)) (*T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.m[key].Value(); p != nil && ok(p) {
		return p, nil
	}
	p, err := create()
	if err != nil {
		return nil, err
	}
	r.set(key, p)
	return p, nil
}

// put enters a new object, in place of one whose handle was given back.
func (r *registry[K, T]) put(key K, p *T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(key, p)
}

func (r *registry[K, T]) set(key K, p *T) {
	if r.m == nil {
		r.m = make(map[K]weak.Pointer[T])
	}
	r.m[key] = weak.Make(p)
	if len(r.m) > 64 && len(r.m)&(len(r.m)-1) == 0 {
		for k, w := range r.m { // forgotten objects, now and then
			if w.Value() == nil {
				delete(r.m, k)
			}
		}
	}
}

// drop removes an object, unless another has its key by now.
func (r *registry[K, T]) drop(key K, p *T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m[key] == weak.Make(p) {
		delete(r.m, key)
	}
}
