package dlpack

// The Go mirrors of the C structs of dlpack.h, for platforms with 8-byte
// pointers. A field that holds a foreign address is a uintptr: what arrives
// from outside may be 0x1 or garbage, which must never sit in a pointer.
// Offsets and sizes are checked against the C compiler and against literals by
// tests (R001 to R005, R089).

type cTensor struct { // DLTensor, 48 bytes
	data       uintptr
	device     Device
	ndim       int32
	dtype      DataType
	shape      uintptr
	strides    uintptr
	byteOffset uint64
}

type cManaged struct { // DLManagedTensor, 64 bytes
	tensor     cTensor
	managerCtx uintptr
	deleter    uintptr
}

type cManagedVersioned struct { // DLManagedTensorVersioned, 80 bytes
	version    Version
	managerCtx uintptr
	deleter    uintptr
	flags      uint64
	tensor     cTensor
}

type cExchangeHeader struct { // DLPackExchangeAPIHeader, 16 bytes
	version Version
	prevAPI uintptr
}

type cExchange struct { // DLPackExchangeAPI, 56 bytes
	header        cExchangeHeader
	allocator     uintptr
	fromPyObject  uintptr
	toPyObject    uintptr
	borrowTensor  uintptr
	currentStream uintptr
}
