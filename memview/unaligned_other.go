//go:build !(amd64 || arm64 || 386 || ppc64le || s390x)

package memview

// unalignedOK tells that the processor reads and writes words at any address.
const unalignedOK = false
