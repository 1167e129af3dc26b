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
// are under way at a time. Those of a block are neighbours: host memory that is read
// far apart at one time is slower, by a fifth. index is u32 where all counts fit.
template <typename T, typename index>
__device__ __forceinline__ void strided(const ho_args &a)
{
	const index count = (index)a.count;
	const index step = (index)blockDim.x;
	const int last = (int)a.n - 1;

	for (u64 first = 4 * (u64)blockIdx.x * step + threadIdx.x; first < count; first += 4 * (u64)gridDim.x * step) {
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

// Words as the memory has them, of global memory: an address of the generic
// space might be that of shared memory, and the compiler would keep loads
// behind stores there.
struct alignas(8) w8 {
	u32 x, y;
};
struct alignas(16) w16 {
	u32 x, y, z, w;
};

__device__ __forceinline__ void load(u64 p, unsigned char &v)
{
	u32 w;
	asm volatile("ld.global.u8 %0, [%1];" : "=r"(w) : "l"(p));
	v = (unsigned char)w;
}
__device__ __forceinline__ void load(u64 p, unsigned short &v)
{
	asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p));
}
__device__ __forceinline__ void load(u64 p, u32 &v)
{
	asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
}
__device__ __forceinline__ void load(u64 p, w8 &v)
{
	asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
}
__device__ __forceinline__ void load(u64 p, w16 &v)
{
	asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(p));
}
__device__ __forceinline__ void store(u64 p, unsigned char v)
{
	asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"((u32)v));
}
__device__ __forceinline__ void store(u64 p, unsigned short v)
{
	asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(v));
}
__device__ __forceinline__ void store(u64 p, u32 v)
{
	asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v));
}
__device__ __forceinline__ void store(u64 p, w8 v)
{
	asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y));
}
__device__ __forceinline__ void store(u64 p, w16 v)
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
}

// turn makes the columns of a square rows: V words of V elements each.
__device__ __forceinline__ void turn(unsigned char (&)[1]) {}
__device__ __forceinline__ void turn(unsigned short (&)[1]) {}
__device__ __forceinline__ void turn(u32 (&)[1]) {}
__device__ __forceinline__ void turn(w8 (&)[1]) {}
__device__ __forceinline__ void turn(w16 (&)[1]) {}

__device__ __forceinline__ void turn(w8 (&a)[2]) // of 4 bytes
{
	u32 t = a[0].y;
	a[0].y = a[1].x;
	a[1].x = t;
}

__device__ __forceinline__ void turn(w8 (&a)[4]) // of 2 bytes
{
	const w8 b[4] = {a[0], a[1], a[2], a[3]};
	a[0] = {__byte_perm(b[0].x, b[1].x, 0x5410), __byte_perm(b[2].x, b[3].x, 0x5410)};
	a[1] = {__byte_perm(b[0].x, b[1].x, 0x7632), __byte_perm(b[2].x, b[3].x, 0x7632)};
	a[2] = {__byte_perm(b[0].y, b[1].y, 0x5410), __byte_perm(b[2].y, b[3].y, 0x5410)};
	a[3] = {__byte_perm(b[0].y, b[1].y, 0x7632), __byte_perm(b[2].y, b[3].y, 0x7632)};
}

__device__ __forceinline__ void turn4(u32 a, u32 b, u32 c, u32 d, u32 &e, u32 &f, u32 &g, u32 &h)
{
	const u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
	const u32 AB = __byte_perm(a, b, 0x7362), CD = __byte_perm(c, d, 0x7362);
	e = __byte_perm(ab, cd, 0x5410);
	f = __byte_perm(ab, cd, 0x7632);
	g = __byte_perm(AB, CD, 0x5410);
	h = __byte_perm(AB, CD, 0x7632);
}

__device__ __forceinline__ void turn(u32 (&a)[4]) // of 1 byte
{
	turn4(a[0], a[1], a[2], a[3], a[0], a[1], a[2], a[3]);
}

__device__ __forceinline__ void turn(w8 (&a)[8]) // of 1 byte
{
	w8 b[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		b[i] = a[i];
	turn4(b[0].x, b[1].x, b[2].x, b[3].x, a[0].x, a[1].x, a[2].x, a[3].x);
	turn4(b[4].x, b[5].x, b[6].x, b[7].x, a[0].y, a[1].y, a[2].y, a[3].y);
	turn4(b[0].y, b[1].y, b[2].y, b[3].y, a[4].x, a[5].x, a[6].x, a[7].x);
	turn4(b[4].y, b[5].y, b[6].y, b[7].y, a[4].y, a[5].y, a[6].y, a[7].y);
}

// Which tile of which matrix of the batch a block moves: down by across tiles are
// a matrix, and neighbouring blocks write neighbouring tiles.
__device__ __forceinline__ void which_tile(const ho_args &a, u32 down, u32 across, u64 &dst, u64 &src, u32 &tx, u32 &ty)
{
	const u32 row_of_tiles = blockIdx.x / across;
	u32 batch = row_of_tiles / down;

	tx = blockIdx.x - row_of_tiles * across;
	ty = row_of_tiles - batch * down;
	dst = a.dst;
	src = a.src;
	for (int k = (int)a.n - 3; k >= 0; k--) {
		u32 q = batch / (u32)a.shape[k];
		u32 r = batch - q * (u32)a.shape[k];
		dst += (i64)r * a.dst_step[k];
		src += (i64)r * a.src_step[k];
		batch = q;
	}
}

// The last axis is dense in dst, the one before it is dense in src, and the
// others are a batch: tiles of ROWS along the latter by COLS along the former go
// through shared memory, so that both sides see whole lines. A block of 256
// threads moves one tile. Elements of type T are moved as words W, to which all
// addresses and strides are aligned: a thread loads all its words at once, so that
// enough bytes are under way, and turns squares of them in registers. Which
// column of the tile a word is in depends on its row, so that no two lanes want
// one bank.
template <typename T, typename W, int ROWS, int COLS>
__device__ __forceinline__ void transpose(const ho_args &a)
{
	enum {
		THREADS = 256,
		V = sizeof(W) / sizeof(T), // elements of a word
		DOWN = ROWS / V,           // words of a tile along src's dense axis
		ACROSS = COLS / V,         // and along dst's
		LOADS = ACROSS / (THREADS / DOWN), // squares a thread loads
	};
	static_assert(THREADS % DOWN == 0 && THREADS % ACROSS == 0 && LOADS * (THREADS / DOWN) == ACROSS, "shape");
	static_assert((ACROSS & (ACROSS - 1)) == 0 && ROWS % (THREADS / ACROSS) == 0, "shape");
	__shared__ W tile[ROWS * ACROSS];

	const int n = (int)a.n, t = (int)threadIdx.x;
	const u64 rows = a.shape[n - 2], cols = a.shape[n - 1];
	const i64 dst_row = a.dst_step[n - 2], src_col = a.src_step[n - 1];
	u64 dst, src;
	u32 tx, ty;
	which_tile(a, (u32)((rows + ROWS - 1) / ROWS), (u32)((cols + COLS - 1) / COLS), dst, src, tx, ty);

	const u64 row0 = (u64)ty * ROWS, col0 = (u64)tx * COLS;
	src += row0 * sizeof(T) + (i64)col0 * src_col;
	dst += (i64)row0 * dst_row + col0 * sizeof(T);

	if (row0 + ROWS <= rows && col0 + COLS <= cols) {
		const int x = t % DOWN, y = t / DOWN;
		const u64 from = src + (u64)x * sizeof(W) + (i64)(y * V) * src_col;
		W word[LOADS][V];
#pragma unroll
		for (int i = 0; i < LOADS; i++)
#pragma unroll
			for (int j = 0; j < V; j++)
				load(from + (i64)(i * (THREADS / DOWN) * V + j) * src_col, word[i][j]);
#pragma unroll
		for (int i = 0; i < LOADS; i++) {
			turn(word[i]);
#pragma unroll
			for (int j = 0; j < V; j++)
				tile[(x * V + j) * ACROSS + ((y + i * (THREADS / DOWN)) ^ (x & (ACROSS - 1)))] = word[i][j];
		}
		__syncthreads();
		const int c = t % ACROSS, r0 = t / ACROSS;
		const u64 to = dst + (u64)c * sizeof(W) + (i64)r0 * dst_row;
#pragma unroll
		for (int r = 0; r < ROWS; r += THREADS / ACROSS)
			store(to + (i64)r * dst_row, tile[(r0 + r) * ACROSS + (c ^ ((r0 + r) / V & (ACROSS - 1)))]);
		return;
	}

	// At the edges element by element, as far as there are any.
	T *cell = (T *)tile;
	const int x = t % 32, y = t / 32;
	const int height = (int)min((u64)ROWS, rows - row0), width = (int)min((u64)COLS, cols - col0);
#define HO_CELL(r, c) cell[(r) * COLS + ((((c) / V) ^ ((r) / V & (ACROSS - 1))) * V + (c) % V)]
#pragma unroll 1
	for (int c = y; c < width; c += THREADS / 32)
		for (int r = x; r < height; r += 32)
			load(src + (u64)r * sizeof(T) + (i64)c * src_col, HO_CELL(r, c));
	__syncthreads();
#pragma unroll 1
	for (int r = y; r < height; r += THREADS / 32)
		for (int c = x; c < width; c += 32)
			store(dst + (i64)r * dst_row + (u64)c * sizeof(T), HO_CELL(r, c));
}

// The same where rows begin anywhere, as those of an odd length do. What a block
// writes of a row of dst is moved to the left, to where a sector of 32 bytes begins:
// most of what an odd length costs otherwise is sectors that are written in parts.
// For that the tile has as many columns more as a sector has elements. src is read in aligned
// words of 16 bytes, which the tile takes apart; inside, those that stick out are
// elements of the matrix, too.
template <typename T, int ROWS, int COLS>
__device__ __forceinline__ void shifted(const ho_args &a)
{
	enum {
		THREADS = 256,
		SIZE = sizeof(T),
		LEAD = 32 / SIZE, // columns more
		WIDTH = COLS + LEAD,
		PITCH = WIDTH + 1, // odd: no two lanes of a column want one bank
		PART = 16 / SIZE,  // elements of a word of src
		WORDS = ROWS / PART + 1,
		ROUNDS = (WIDTH * WORDS + THREADS - 1) / THREADS,
		PAIR = 8 / SIZE, // elements that a thread stores at once
	};
	__shared__ T tile[ROWS * PITCH];

	const int n = (int)a.n, t = (int)threadIdx.x;
	const i64 rows = (i64)a.shape[n - 2], cols = (i64)a.shape[n - 1];
	const i64 dst_row = a.dst_step[n - 2], src_col = a.src_step[n - 1];
	u64 dst, src;
	u32 tx, ty;
	which_tile(a, (u32)((rows + ROWS - 1) / ROWS), (u32)((cols + LEAD - 1 + COLS - 1) / COLS), dst, src, tx, ty);

	const i64 row0 = (i64)ty * ROWS, col0 = (i64)tx * COLS;
	src += row0 * SIZE + (col0 - LEAD) * src_col; // the tile's first element, perhaps outside
	dst += row0 * dst_row + col0 * SIZE;

	if (row0 >= LEAD && row0 + ROWS + LEAD <= rows && col0 >= LEAD && col0 + COLS <= cols) {
		w16 word[ROUNDS];
#pragma unroll
		for (int i = 0; i < ROUNDS; i++) {
			const int x = t + i * THREADS, c = x / WORDS, k = x % WORDS;
			const u64 from = src + (i64)c * src_col;
			if (x < WIDTH * WORDS)
				load(from - from % 16 + k * 16, word[i]);
		}
#pragma unroll
		for (int i = 0; i < ROUNDS; i++) {
			const int x = t + i * THREADS, c = x / WORDS, k = x % WORDS;
			const int off = (int)((src + (i64)c * src_col) % 16) / SIZE;
			const T *e = (const T *)&word[i];
			if (x < WIDTH * WORDS)
#pragma unroll
				for (int j = 0; j < PART; j++) {
					const int r = k * PART + j - off;
					if (r >= 0 && r < ROWS)
						tile[r * PITCH + c] = e[j];
				}
		}
		__syncthreads();
#pragma unroll
		for (int x = t; x < ROWS * (COLS / PAIR); x += THREADS) {
			const int r = x / (COLS / PAIR), k = x % (COLS / PAIR) * PAIR;
			const u64 to = dst + r * dst_row;
			const int left = (int)(to % 32) / SIZE;
			w8 out;
			T *e = (T *)&out;
#pragma unroll
			for (int j = 0; j < PAIR; j++)
				e[j] = tile[r * PITCH + LEAD - left + k + j];
			store(to + (i64)(k - left) * SIZE, out);
		}
		return;
	}

	// At the edges element by element, as far as there are any.
	const int x = t % 32, y = t / 32;
#pragma unroll 1
	for (int c = y; c < WIDTH; c += THREADS / 32)
		for (int r = x; r < ROWS && row0 + r < rows; r += 32)
			if (col0 - LEAD + c >= 0 && col0 - LEAD + c < cols)
				load(src + (u64)r * SIZE + (i64)c * src_col, tile[r * PITCH + c]);
	__syncthreads();
#pragma unroll 1
	for (int r = y; r < ROWS && row0 + r < rows; r += THREADS / 32) {
		const u64 to = dst + r * dst_row;
		const int left = (int)(to % 32) / SIZE;
		for (int k = x; k < COLS; k += 32)
			if (col0 + k - left >= 0 && col0 + k - left < cols)
				store(to + (i64)(k - left) * SIZE, tile[r * PITCH + LEAD - left + k]);
	}
}

#define STRIDED(BYTES, T)                                                                             \
	extern "C" __global__ void __launch_bounds__(256)                                             \
	    ho_copy_strided_##BYTES##_32(const __grid_constant__ ho_args a) { strided<T, u32>(a); }   \
	extern "C" __global__ void __launch_bounds__(256)                                             \
	    ho_copy_strided_##BYTES##_64(const __grid_constant__ ho_args a) { strided<T, u64>(a); }

STRIDED(1, unsigned char)
STRIDED(2, unsigned short)
STRIDED(4, u32)
STRIDED(8, u64)
STRIDED(16, uint4)

// Named by the bytes of an element and of a word, and by the tile: the list
// Tiles in kernels.go.
#define TRANSPOSE(BYTES, T, WORD, W, ROWS, COLS)                                                      \
	extern "C" __global__ void __launch_bounds__(256)                                             \
	    ho_copy_transpose_##BYTES##_##WORD##_##ROWS##x##COLS(const __grid_constant__ ho_args a)   \
	{                                                                                             \
		transpose<T, W, ROWS, COLS>(a);                                                       \
	}

TRANSPOSE(1, unsigned char, 8, w8, 256, 128)
TRANSPOSE(1, unsigned char, 4, u32, 128, 64)
TRANSPOSE(1, unsigned char, 1, unsigned char, 64, 64)
TRANSPOSE(2, unsigned short, 8, w8, 128, 128)
TRANSPOSE(2, unsigned short, 8, w8, 64, 64)
TRANSPOSE(2, unsigned short, 2, unsigned short, 64, 64)
TRANSPOSE(4, u32, 8, w8, 64, 64)
TRANSPOSE(4, u32, 4, u32, 64, 64)
TRANSPOSE(8, w8, 8, w8, 64, 64)
TRANSPOSE(8, w8, 8, w8, 32, 32)
TRANSPOSE(16, w16, 16, w16, 32, 16)

#define SHIFTED(BYTES, T, ROWS, COLS)                                                                 \
	extern "C" __global__ void __launch_bounds__(256)                                             \
	    ho_copy_shifted_##BYTES##_##ROWS##x##COLS(const __grid_constant__ ho_args a)              \
	{                                                                                             \
		shifted<T, ROWS, COLS>(a);                                                            \
	}

SHIFTED(1, unsigned char, 128, 128)
SHIFTED(2, unsigned short, 128, 64)
SHIFTED(4, u32, 64, 64)
