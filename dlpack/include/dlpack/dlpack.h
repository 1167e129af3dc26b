/*
 * The C ABI of DLPack 1.3: the structs, enumerations and function types by
 * which array libraries lend memory to one another.
 *
 * This header is written for Handoff. It uses the names and the include guard
 * of the header that the DLPack project publishes, so C and C++ code that says
 * #include <dlpack/dlpack.h> compiles against either of them. A test compares
 * the two.
 *
 * Sizes and offsets in the comments are those of a platform with 8-byte
 * pointers.
 */
#pragma once
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif

/* A change of the major number changes the layout behind `flags`; a change of
 * the minor number only adds values. */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

#ifdef _WIN32
#ifdef DLPACK_EXPORTS
#define DLPACK_DLL __declspec(dllexport)
#else
#define DLPACK_DLL __declspec(dllimport)
#endif
#else
#define DLPACK_DLL
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version that a managed tensor or an exchange table was written for. */
typedef struct {
	uint32_t major;
	uint32_t minor;
} DLPackVersion;

/* Kinds of memory. The type is 4 bytes wide. 0, 5 and 6 are not assigned. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
	kDLCPU = 1,          /* ordinary host memory */
	kDLCUDA = 2,         /* memory of a CUDA device */
	kDLCUDAHost = 3,     /* host memory pinned by CUDA */
	kDLOpenCL = 4,       /* data is an opaque cl_mem */
	kDLVulkan = 7,       /* Vulkan buffer */
	kDLMetal = 8,        /* Metal buffer */
	kDLVPI = 9,          /* buffer of a Verilog simulator */
	kDLROCM = 10,        /* memory of a ROCm device */
	kDLROCMHost = 11,    /* host memory pinned by ROCm */
	kDLExtDev = 12,      /* private meaning */
	kDLCUDAManaged = 13, /* CUDA managed memory */
	kDLOneAPI = 14,      /* oneAPI unified shared memory */
	kDLWebGPU = 15,
	kDLHexagon = 16,
	kDLMAIA = 17,
	kDLTrn = 18,
	/* Seen in use after 1.3, in no tagged header yet. */
	kDLTPU = 19,
	kDLTPUHost = 20,
	kDLAscend = 21,
} DLDeviceType;

/* Where a tensor lives. device_id is 0 for host memory and for managed memory,
 * the ordinal that the producing process sees otherwise. */
typedef struct {
	DLDeviceType device_type; /* 0 */
	int32_t device_id;        /* 4 */
} DLDevice;

/* What the bits of an element mean. */
typedef enum {
	kDLInt = 0U,
	kDLUInt = 1U,
	kDLFloat = 2U,        /* IEEE 754 binary */
	kDLOpaqueHandle = 3U, /* by private agreement */
	kDLBfloat = 4U,
	kDLComplex = 5U, /* real, imaginary; bits counts both */
	kDLBool = 6U,    /* one byte, 0 or 1 */
	kDLFloat8_e3m4 = 7U,
	kDLFloat8_e4m3 = 8U,
	kDLFloat8_e4m3b11fnuz = 9U,
	kDLFloat8_e4m3fn = 10U,
	kDLFloat8_e4m3fnuz = 11U,
	kDLFloat8_e5m2 = 12U,
	kDLFloat8_e5m2fnuz = 13U,
	kDLFloat8_e8m0fnu = 14U,
	kDLFloat6_e2m3fn = 15U, /* bits is 6 */
	kDLFloat6_e3m2fn = 16U, /* bits is 6 */
	kDLFloat4_e2m1fn = 17U, /* bits is 4 */
	/* Seen in use after 1.3, in no tagged header yet. */
	kDLBcomplex = 18U, /* two bfloat16; bits is 32 */
} DLDataTypeCode;

/* Type of an element: `lanes` values of `bits` bits each, native byte order.
 * Elements below 8 bits are packed from the least significant bit up, unless
 * DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED is set. */
typedef struct {
	uint8_t code;   /* 0 */
	uint8_t bits;   /* 1 */
	uint16_t lanes; /* 2 */
} DLDataType;

/* A strided tensor that owns nothing. Its first element, the one with index
 * (0, ..., 0), is at data + byte_offset. */
typedef struct {
	void *data;           /*  0: an address, or an opaque handle on some devices */
	DLDevice device;      /*  8 */
	int32_t ndim;         /* 16 */
	DLDataType dtype;     /* 20 */
	int64_t *shape;       /* 24: ndim values; may be NULL if ndim is 0 */
	int64_t *strides;     /* 32: ndim values, in elements; NULL before 1.2 means row-major */
	uint64_t byte_offset; /* 40 */
} DLTensor;

/* A tensor with an owner, the form before 1.0. Whoever holds it calls deleter
 * exactly once, with the address of the struct, unless deleter is NULL. */
typedef struct DLManagedTensor {
	DLTensor dl_tensor;                            /*  0 */
	void *manager_ctx;                             /* 48 */
	void (*deleter)(struct DLManagedTensor *self); /* 56 */
} DLManagedTensor;

/* The consumer must not write. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
/* The producer made a fresh copy; nobody else uses the memory. */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
/* Elements below 8 bits take one byte each. */
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

/* A tensor with an owner, since 1.0. The first four fields keep their offsets
 * in every future version. If version.major is not known, call deleter (if not
 * NULL) and read nothing behind flags. */
typedef struct DLManagedTensorVersioned {
	DLPackVersion version;                                  /*  0 */
	void *manager_ctx;                                      /*  8 */
	void (*deleter)(struct DLManagedTensorVersioned *self); /* 16 */
	uint64_t flags;                                         /* 24 */
	DLTensor dl_tensor;                                     /* 32 */
} DLManagedTensorVersioned;

/*
 * The exchange table: C functions of a Python array library, found through its
 * tensor type. All return 0 for success and -1 for failure, and none of them
 * synchronizes anything.
 */

/* Allocates a tensor like prototype, of which dtype, ndim, shape and device
 * are read. set_error is called exactly if -1 is returned. */
typedef int (*DLPackManagedTensorAllocator)(DLTensor *prototype, DLManagedTensorVersioned **out,
                                            void *error_ctx,
                                            void (*SetError)(void *error_ctx, const char *kind,
                                                             const char *message));

/* Exports a Python object. The caller owns *out. -1: a Python error is set. */
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void *py_object,
                                                     DLManagedTensorVersioned **out);

/* Makes a Python object from a tensor, which is consumed on success. */
typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned *tensor,
                                                   void **out_py_object);

/* Lends the tensor of a Python object for the duration of the current call. */
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);

/* The raw handle of the stream on which the library works now. */
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id,
                                       void **out_current_stream);

/* Start of every version of the table. prev_api leads to the table of an older
 * major version, or is NULL. */
typedef struct DLPackExchangeAPIHeader {
	DLPackVersion version;                    /* 0 */
	struct DLPackExchangeAPIHeader *prev_api; /* 8 */
} DLPackExchangeAPIHeader;

typedef struct DLPackExchangeAPI {
	DLPackExchangeAPIHeader header;                                             /*  0 */
	DLPackManagedTensorAllocator managed_tensor_allocator;                      /* 16 */
	DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync; /* 24 */
	DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;    /* 32 */
	DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync; /* 40: may be NULL */
	DLPackCurrentWorkStream current_work_stream;                                /* 48 */
} DLPackExchangeAPI;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DLPACK_DLPACK_H_ */
