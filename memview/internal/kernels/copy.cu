// Kernels that copy between two layouts of the same elements: the device part
// of memview.CopyOn. gen.py compiles them into zcopy.ptx.
//
// Go prepares the copy: axes are merged and sorted so that the last one has
// the smallest stride in dst, and elements are words of 1, 2, 4, 8 or 16 bytes
// to which every address and stride is aligned.

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;

#define HO_AXES 8

// Mirror of Args in kernels.go.
struct ho_args {
	u64 dst, src;          // addresses of the first element
	u64 count;             // elements
	u64 shape[HO_AXES];    // extents
	i64 dst_step[HO_AXES]; // bytes
	i64 src_step[HO_AXES];
	u32 n;                 // axes, at least 1
	u32 pad;
};

// Any strides. Each thread copies four elements a round, so that four loads
// are under way at a time. index is u32 where all counts fit.
template <typename T, typename index>
__device__ __forceinline__ void strided(const ho_args &a)
{
	const index count = (index)a.count;
	const index step = (index)gridDim.x * blockDim.x;
	const int last = (int)a.n - 1;

	for (u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x; first < count; first += 4 * (u64)step) {
		index i[4];
		i64 to[4], from[4];
		T value[4];

#pragma unroll
		for (int j = 0; j < 4; j++) {
			u64 at = first + j * (u64)step;
			i[j] = at < count ? (index)at : 0;
			to[j] = from[j] = 0;
		}
#pragma unroll 1
		for (int k = last; k > 0; k--) {
			const index extent = (index)a.shape[k];
			const i64 dst_step = a.dst_step[k], src_step = a.src_step[k];
#pragma unroll
			for (int j = 0; j < 4; j++) {
				index q = i[j] / extent;
				index r = i[j] - q * extent;
				to[j] += (i64)r * dst_step;
				from[j] += (i64)r * src_step;
				i[j] = q;
			}
		}
#pragma unroll
		for (int j = 0; j < 4; j++) {
			to[j] += (i64)i[j] * a.dst_step[0];
			from[j] += (i64)i[j] * a.src_step[0];
		}
#pragma unroll
		for (int j = 0; j < 4; j++)
			if (first + j * (u64)step < count)
				value[j] = *(const T *)(a.src + from[j]);
#pragma unroll
		for (int j = 0; j < 4; j++)
			if (first + j * (u64)step < count)
				*(T *)(a.dst + to[j]) = value[j];
	}
}

// The last axis is dense in dst, the one before it is dense in src, and the
// others are a batch: tiles go through shared memory, so that both sides see
// whole lines. A block has 32 x 8 threads and moves one tile. Neighbouring
// blocks move tiles of a band BAND tiles wide, so that the blocks that run at
// one time share pages on both sides.
template <typename T, int TILE>
__device__ __forceinline__ void transpose(const ho_args &a)
{
	enum { BAND = 16, ROWS = 8 };
	__shared__ T tile[TILE][TILE + 1];

	const int n = (int)a.n;
	const u64 rows = a.shape[n - 2], cols = a.shape[n - 1];
	const u32 down = (u32)((rows + TILE - 1) / TILE), across = (u32)((cols + TILE - 1) / TILE);
	const i64 dst_row = a.dst_step[n - 2], src_col = a.src_step[n - 1];

	// Which tile of which matrix of the batch.
	const u32 plane = down * across;
	u32 batch = blockIdx.x / plane;
	const u32 at = blockIdx.x - batch * plane;
	const u32 band = at / (BAND * down);
	const u32 left = band * BAND;
	const u32 width = min((u32)BAND, across - left);
	const u32 in_band = at - left * down;
	const u32 ty = in_band / width, tx = left + (in_band - ty * width);

	u64 dst = a.dst, src = a.src;
	for (int k = n - 3; k >= 0; k--) {
		u32 q = batch / (u32)a.shape[k];
		u32 r = batch - q * (u32)a.shape[k];
		dst += (i64)r * a.dst_step[k];
		src += (i64)r * a.src_step[k];
		batch = q;
	}

	const u64 row0 = (u64)ty * TILE, col0 = (u64)tx * TILE;
	const int x = threadIdx.x, y = threadIdx.y;
	src += row0 * sizeof(T) + (i64)col0 * src_col;
	dst += (i64)row0 * dst_row + col0 * sizeof(T);

	if (row0 + TILE <= rows && col0 + TILE <= cols) {
#pragma unroll
		for (int c = 0; c < TILE; c += ROWS)
#pragma unroll
			for (int r = 0; r < TILE; r += 32)
				tile[c + y][r + x] = *(const T *)(src + (r + x) * sizeof(T) + (i64)(c + y) * src_col);
		__syncthreads();
#pragma unroll
		for (int r = 0; r < TILE; r += ROWS)
#pragma unroll
			for (int c = 0; c < TILE; c += 32)
				*(T *)(dst + (i64)(r + y) * dst_row + (c + x) * sizeof(T)) = tile[c + x][r + y];
		return;
	}
	for (int c = y; c < TILE; c += ROWS)
		for (int r = x; r < TILE; r += 32)
			if (row0 + r < rows && col0 + c < cols)
				tile[c][r] = *(const T *)(src + r * sizeof(T) + (i64)c * src_col);
	__syncthreads();
	for (int r = y; r < TILE; r += ROWS)
		for (int c = x; c < TILE; c += 32)
			if (row0 + r < rows && col0 + c < cols)
				*(T *)(dst + (i64)r * dst_row + c * sizeof(T)) = tile[c][r];
}

#define KERNELS(BYTES, T, TILE)                                                                             \
	extern "C" __global__ void __launch_bounds__(256)                                                   \
	    ho_copy_strided_##BYTES##_32(const __grid_constant__ ho_args a) { strided<T, u32>(a); }         \
	extern "C" __global__ void __launch_bounds__(256)                                                   \
	    ho_copy_strided_##BYTES##_64(const __grid_constant__ ho_args a) { strided<T, u64>(a); }         \
	extern "C" __global__ void __launch_bounds__(256)                                                   \
	    ho_copy_transpose_##BYTES(const __grid_constant__ ho_args a) { transpose<T, TILE>(a); }

KERNELS(1, unsigned char, 64)
KERNELS(2, unsigned short, 64)
KERNELS(4, u32, 64)
KERNELS(8, u64, 64)
KERNELS(16, uint4, 32)
