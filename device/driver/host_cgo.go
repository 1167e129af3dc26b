//go:build cgo && linux

package driver

// callHostFunc runs the function of a key. Neither a panic nor Goexit may
// cross into C, and Goexit cannot be stopped on the driver's thread: fn has a
// goroutine of its own.
func callHostFunc(key uintptr, once bool) {
	h := &hostFuncs
	h.Lock()
	fn := h.fns[key]
	if once {
		delete(h.fns, key)
		delete(h.touch, key)
	}
	h.Unlock()
	if fn == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		ok := false
		defer close(done)
		defer func() {
			if !ok {
				recover()
				h.panics.Add(1)
			}
		}()
		fn()
		ok = true
	}()
	<-done
}
