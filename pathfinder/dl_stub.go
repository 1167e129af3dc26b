//go:build !cgo || !linux

package pathfinder

// canOpen says that this build cannot open libraries.
const canOpen = false

type openMode int

const (
	keepOpen   openMode = 0
	onlyLoaded openMode = 1
	deepBind   openMode = 2
)

func openLibrary(string, openMode) (handle uintptr, path, problem string) {
	return 0, "", ErrNotSupported.Error()
}

func symbol(uintptr, string) uintptr { return 0 }
