package launch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/launch"
)

func key(n byte) (k launch.CacheKey) {
	k[0], k[31] = n, n
	return k
}

// entry is a valid one: a cache on disk looks at what it reads.
func entry(t testing.TB, size int) []byte {
	t.Helper()
	return launch.EncodeEntry(launch.FormatOpaque, make([]byte, size), map[string]string{"name": "mangled"})
}

func TestMemoryCache(t *testing.T) {
	c := launch.NewMemoryCache(100)
	get := func(n byte) []byte {
		b, err := c.Get(key(n))
		require.NoError(t, err)
		return b
	}
	require.Nil(t, get(1))
	require.NoError(t, c.Put(key(1), make([]byte, 40)))
	require.NoError(t, c.Put(key(2), make([]byte, 40)))
	require.Len(t, get(1), 40)
	require.NoError(t, c.Put(key(3), make([]byte, 40)))
	require.Nil(t, get(2), "not used for longest")
	require.Len(t, get(1), 40)
	require.NoError(t, c.Put(key(1), make([]byte, 10)))
	require.Len(t, get(1), 10)
	require.EqualValues(t, 50, c.Size())
	require.Equal(t, 2, c.Len())
	require.NoError(t, c.Put(key(4), make([]byte, 101)))
	require.Nil(t, get(4), "larger than the cache")
	require.Equal(t, 2, c.Len())
	c.Clear()
	require.Zero(t, c.Size())
	require.Zero(t, c.Len())
}

// TestMemoryCacheModel compares the cache with a list.
func TestMemoryCacheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 64).Draw(t, "limit")
		c := launch.NewMemoryCache(limit)
		type item struct {
			n    byte
			size int
		}
		var model []item // last used first
		take := func(n byte) (item, bool) {
			for i, m := range model {
				if m.n == n {
					model = append(model[:i:i], model[i+1:]...)
					return m, true
				}
			}
			return item{}, false
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.ByteRange(0, 7).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				size := rapid.IntRange(0, 40).Draw(t, "size")
				require.NoError(t, c.Put(key(n), make([]byte, size)))
				take(n)
				if int64(size) <= limit {
					model = append([]item{{n, size}}, model...)
				}
				for total := int64(0); ; total = 0 {
					for _, m := range model {
						total += int64(m.size)
					}
					if total <= limit {
						require.Equal(t, total, c.Size())
						break
					}
					model = model[:len(model)-1]
				}
			} else {
				b, err := c.Get(key(n))
				require.NoError(t, err)
				m, ok := take(n)
				require.Equal(t, ok, b != nil)
				if ok {
					require.Len(t, b, m.size)
					model = append([]item{m}, model...)
				}
			}
			require.Equal(t, len(model), c.Len())
		}
	})
}

func disk(t testing.TB, o *launch.DiskOptions) *launch.DiskCache {
	t.Helper()
	c, err := launch.OpenDiskCache(filepath.Join(t.TempDir(), "a", "b"), o)
	require.NoError(t, err)
	return c
}

func files(t testing.TB, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	}))
	return list
}

func TestDiskCache(t *testing.T) {
	c := disk(t, nil)
	b, err := c.Get(key(1))
	require.NoError(t, err)
	require.Nil(t, b)
	want := entry(t, 1000)
	require.NoError(t, c.Put(key(1), want))
	require.NoError(t, c.Put(key(1), want))
	b, err = c.Get(key(1))
	require.NoError(t, err)
	require.Equal(t, want, b)
	require.Len(t, files(t, c.Dir()), 1, "no file is left over")

	again, err := launch.OpenDiskCache(c.Dir(), nil)
	require.NoError(t, err)
	b, err = again.Get(key(1))
	require.NoError(t, err)
	require.Equal(t, want, b)
	n, err := again.Size()
	require.NoError(t, err)
	require.EqualValues(t, len(want), n)
	require.NoError(t, again.Clear())
	b, err = c.Get(key(1))
	require.NoError(t, err)
	require.Nil(t, b)
	st, err := os.Stat(c.Dir())
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), st.Mode().Perm())
}

// TestDiskCacheDamage changes every byte of an entry, and cuts it everywhere:
// none is given out.
func TestDiskCacheDamage(t *testing.T) {
	c := disk(t, nil)
	good := entry(t, 40)
	require.NoError(t, c.Put(key(1), good))
	path := files(t, c.Dir())[0]
	for i := range good {
		bad := append([]byte{}, good...)
		bad[i] ^= 0x10
		for _, b := range [][]byte{bad, good[:i]} {
			require.NoError(t, os.WriteFile(path, b, 0o600))
			got, err := c.Get(key(1))
			require.Error(t, err)
			require.Nil(t, got)
			require.NoFileExists(t, path, "damage is removed")
		}
	}
}

func TestDiskCacheTrim(t *testing.T) {
	size := len(entry(t, 1000))
	c := disk(t, &launch.DiskOptions{MaxBytes: int64(10 * size)})
	old := time.Now().Add(-24 * time.Hour)
	for i := range byte(10) {
		require.NoError(t, c.Put(key(i), entry(t, 1000)))
	}
	for i, path := range files(t, c.Dir()) { // in the order of the keys
		require.NoError(t, os.Chtimes(path, old, old.Add(time.Duration(i)*time.Minute)))
	}
	b, err := c.Get(key(0)) // a use
	require.NoError(t, err)
	require.NotNil(t, b)
	stale := filepath.Join(c.Dir(), "new-of-a-process-that-died")
	require.NoError(t, os.WriteFile(stale, []byte("x"), 0o600))
	require.NoError(t, os.Chtimes(stale, old, old))

	require.NoError(t, c.Put(key(10), entry(t, 1000)))
	n, err := c.Size()
	require.NoError(t, err)
	require.LessOrEqual(t, n, int64(10*size))
	require.NoFileExists(t, stale)
	for i, want := range map[byte]bool{0: true, 1: false, 9: true, 10: true} {
		b, err := c.Get(key(i))
		require.NoError(t, err)
		require.Equal(t, want, b != nil, "entry %d", i)
	}
	require.NoError(t, c.Put(key(11), entry(t, 11*1000)))
	b, err = c.Get(key(11))
	require.NoError(t, err)
	require.Nil(t, b, "larger than the cache")
}

func TestDiskCacheUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := launch.OpenDiskCache(filepath.Join(file, "dir"), nil)
	require.Error(t, err)
	_, err = launch.OpenDiskCache(t.TempDir(), &launch.DiskOptions{MaxBytes: -1})
	require.ErrorIs(t, err, launch.ErrInvalidValue)

	c := disk(t, nil)
	require.NoError(t, os.RemoveAll(c.Dir()))
	require.NoError(t, os.WriteFile(c.Dir(), nil, 0o600))
	require.Error(t, c.Put(key(1), entry(t, 1)))
	needNVRTC(t)
	before := launch.Stats().CacheErrors
	code, err := program(t, saxpy, launch.ProgramOptions{}).Compile(launch.FormatPTX, &launch.CompileOptions{Cache: c})
	require.NoError(t, err, "a cache that is broken is no error of the compiler")
	require.NotEmpty(t, code.Code())
	require.Greater(t, launch.Stats().CacheErrors, before)
}

func TestLayeredCache(t *testing.T) {
	empty, err := launch.LayeredCache(nil, nil).Get(key(1))
	require.NoError(t, err)
	require.Nil(t, empty)
	memory, d := launch.NewMemoryCache(0), disk(t, nil)
	c := launch.LayeredCache(memory, d)
	require.NoError(t, d.Put(key(1), entry(t, 10)))
	b, err := c.Get(key(1))
	require.NoError(t, err)
	require.Equal(t, entry(t, 10), b)
	require.Equal(t, 1, memory.Len(), "the first one has it now")
	require.NoError(t, c.Put(key(2), entry(t, 20)))
	b, err = d.Get(key(2))
	require.NoError(t, err)
	require.Equal(t, entry(t, 20), b)
	b, err = c.Get(key(3))
	require.NoError(t, err)
	require.Nil(t, b)
}

// failing is a cache that does not work.
type failing struct{}

func (failing) Get(launch.CacheKey) ([]byte, error) { return nil, errors.New("broken") }
func (failing) Put(launch.CacheKey, []byte) error   { return errors.New("broken") }

// damaged gives back nonsense.
type damaged struct{}

func (damaged) Get(launch.CacheKey) ([]byte, error) { return []byte("nonsense"), nil }
func (damaged) Put(launch.CacheKey, []byte) error   { return nil }

func TestCompileThroughCache(t *testing.T) {
	needNVRTC(t)
	for _, c := range []launch.Cache{failing{}, damaged{}} {
		code, err := program(t, saxpy, launch.ProgramOptions{}).Compile(launch.FormatPTX, &launch.CompileOptions{Cache: c})
		require.NoError(t, err)
		require.NotEmpty(t, code.Code())
	}
	cache := launch.LayeredCache(launch.NewMemoryCache(0), disk(t, nil))
	const source = `template <class T> __global__ void k(T *p) { *p = 1; }`
	o := &launch.CompileOptions{Cache: cache, Names: []string{"k<int>"}}
	before := launch.Stats()
	first, err := program(t, source, launch.ProgramOptions{}).Compile(launch.FormatCubin, o)
	require.NoError(t, err)
	second, err := program(t, source, launch.ProgramOptions{}).Compile(launch.FormatCubin, o)
	require.NoError(t, err)
	require.Equal(t, first.Code(), second.Code())
	require.Equal(t, first.Symbols(), second.Symbols())
	require.Equal(t, first.Format(), second.Format())
	require.Equal(t, first.Name(), second.Name())
	require.NotSame(t, first, second)
	after := launch.Stats()
	require.Equal(t, before.Compiled+1, after.Compiled)
	require.Equal(t, before.CacheHits+1, after.CacheHits)
	_, err = second.ParamInfo("k<int>")
	require.NoError(t, err)

	_, err = program(t, "int x = ;", launch.ProgramOptions{}).Compile(launch.FormatCubin, o)
	require.ErrorIs(t, err, launch.ErrCompile, "errors are not kept")
}

// counting counts what a cache is asked, by key.
type counting struct {
	mu   sync.Mutex
	keys map[launch.CacheKey]int
}

func (c *counting) Get(k launch.CacheKey) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys[k]++
	return nil, nil
}
func (c *counting) Put(launch.CacheKey, []byte) error { return nil }

// TestCacheKey changes one thing at a time: each must give another key.
func TestCacheKey(t *testing.T) {
	needNVRTC(t)
	c := &counting{keys: map[launch.CacheKey]int{}}
	base := launch.ProgramOptions{Name: "a.cu", Headers: map[string]string{"h": "1", "i": "2"}, Define: map[string]string{"A": "1"}}
	ask := func(source string, target launch.Format, names []string, salt string, change func(*launch.ProgramOptions)) {
		o := base
		if change != nil {
			change(&o)
		}
		_, err := program(t, source, o).Compile(target, &launch.CompileOptions{Cache: c, Names: names, CacheSalt: salt})
		require.NoError(t, err)
	}
	const source = "__global__ void k() {}"
	n := 0
	for name, f := range map[string]func(){
		"base":   func() { ask(source, launch.FormatPTX, nil, "", nil) },
		"source": func() { ask(source+" ", launch.FormatPTX, nil, "", nil) },
		"target": func() { ask(source, launch.FormatCubin, nil, "", nil) },
		"names":  func() { ask(source, launch.FormatPTX, []string{"k"}, "", nil) },
		"salt":   func() { ask(source, launch.FormatPTX, nil, "x", nil) },
		"name":   func() { ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.Name = "b.cu" }) },
		"arch":   func() { ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.Arch = "sm_80" }) },
		"header": func() {
			ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.Headers = map[string]string{"h": "1", "i": "3"} })
		},
		"shifted": func() {
			ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.Headers = map[string]string{"h": "1i", "": "2"} })
		},
		"define": func() {
			ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.Define = map[string]string{"A": "2"} })
		},
		"option":   func() { ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.FastMath = true }) },
		"debug":    func() { ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.LineInfo = true }) },
		"register": func() { ask(source, launch.FormatPTX, nil, "", func(o *launch.ProgramOptions) { o.MaxRegisters = 32 }) },
	} {
		f()
		n++
		require.Len(t, c.keys, n, name)
		f()
		require.Len(t, c.keys, n, "%s: the same again", name)
	}
	for name, o := range map[string]launch.ProgramOptions{
		"IncludePaths": {IncludePaths: []string{"/x"}}, "PreInclude": {PreInclude: []string{"file.h"}}, "SourceInclude": {SourceInclude: launch.ToggleOn},
		"TimeFile": {TimeFile: "x"}, "TimeTraceFile": {TimeTraceFile: "x"}, "PCH": {PCH: launch.PCHOptions{Auto: true}}, "Extra": {Extra: []string{"-DX"}},
	} {
		_, err := program(t, source, o).Compile(launch.FormatPTX, &launch.CompileOptions{Cache: c})
		require.ErrorIs(t, err, launch.ErrInvalidValue, name)
		require.ErrorContains(t, err, name)
	}
}

func TestLinkThroughCache(t *testing.T) {
	a, b := pieces(t, launch.FormatCubin)
	cache := launch.NewMemoryCache(0)
	k := linker(t, launch.LinkerOptions{Cache: cache})
	first, err := k.Link(launch.FormatCubin, a, b)
	require.NoError(t, err)
	hits := launch.Stats().CacheHits
	second, err := k.Link(launch.FormatCubin, a, b)
	require.NoError(t, err)
	require.Equal(t, hits+1, launch.Stats().CacheHits)
	require.Equal(t, first.Code(), second.Code())
	require.Equal(t, first.Symbols(), second.Symbols())
	_, err = linker(t, launch.LinkerOptions{Cache: cache, LineInfo: true}).Link(launch.FormatCubin, a, b)
	require.NoError(t, err)
	require.Equal(t, 2, cache.Len())
}

// TestCompileOnce wants one thing from many goroutines.
func TestCompileOnce(t *testing.T) {
	needNVRTC(t)
	cache := launch.NewMemoryCache(0)
	before := launch.Stats()
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := program(t, saxpy+"// once", launch.ProgramOptions{}).Compile(launch.FormatCubin, &launch.CompileOptions{Cache: cache})
			if err != nil || len(c.Code()) == 0 {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	require.Equal(t, before.Compiled+1, launch.Stats().Compiled)
	require.Equal(t, before.CacheHits+7, launch.Stats().CacheHits)
}

// TestProcesses lets eight processes share a directory that is too small for
// all entries: each gets only what was put under its key, or nothing.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	var cmds []*exec.Cmd
	for range 8 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "LAUNCH_TEST_CHILD=cache", "LAUNCH_TEST_DIR="+dir)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		require.NoError(t, cmd.Wait())
	}
	for _, path := range files(t, dir) {
		require.False(t, strings.HasPrefix(filepath.Base(path), "new-"), path)
	}
	c, err := launch.OpenDiskCache(dir, &launch.DiskOptions{MaxBytes: processBytes})
	require.NoError(t, err)
	n, err := c.Size()
	require.NoError(t, err)
	require.Positive(t, n)
	require.LessOrEqual(t, n, int64(processBytes))
}

const processBytes = 200 << 10

// cacheProcess is one of the eight.
func cacheProcess() int {
	c, err := launch.OpenDiskCache(os.Getenv("LAUNCH_TEST_DIR"), &launch.DiskOptions{MaxBytes: processBytes})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	hits := 0
	for i := range 400 {
		n := byte(i * 7 % 64)
		want := launch.EncodeEntry(launch.FormatOpaque, []byte(strings.Repeat(string(rune('a'+n%26)), 1+int(n)*100)), map[string]string{"n": fmt.Sprint(n)})
		got, err := c.Get(key(n))
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			return 1
		case got != nil && string(got) != string(want):
			fmt.Fprintf(os.Stderr, "entry %d is not what was put\n", n)
			return 1
		case got != nil:
			hits++
		}
		if err := c.Put(key(n), want); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if hits == 0 {
		fmt.Fprintln(os.Stderr, "no hits: the directory is not shared")
		return 1
	}
	return 0
}

// largeSource is CUDA C++ of 20 KiB.
func largeSource() string {
	var b strings.Builder
	for i := 0; b.Len() < 20<<10; i++ {
		fmt.Fprintf(&b, "extern \"C\" __global__ void k%d(float *p, int n) { for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = p[i] * %d.5f + sqrtf(p[n - i]); }\n", i, i)
	}
	return b.String()
}

// BenchmarkCompile compares NVRTC with the caches, for 20 KiB of source.
func BenchmarkCompile(b *testing.B) {
	needNVRTC(b)
	p := program(b, largeSource(), launch.ProgramOptions{})
	d := disk(b, nil)
	for _, c := range []struct {
		name  string
		cache launch.Cache
	}{{"nvrtc", nil}, {"disk", d}, {"memory", launch.LayeredCache(launch.NewMemoryCache(0), d)}} {
		b.Run(c.name, func(b *testing.B) {
			o := &launch.CompileOptions{Cache: c.cache}
			if c.cache != nil {
				_, err := p.Compile(launch.FormatCubin, o)
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Compile(launch.FormatCubin, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHitIsCheap is the promise: a hit on disk costs at most 2 % of compiling
// 20 KiB of source.
func TestHitIsCheap(t *testing.T) {
	needNVRTC(t)
	p := program(t, largeSource(), launch.ProgramOptions{})
	start := time.Now()
	_, err := p.Compile(launch.FormatCubin, nil)
	require.NoError(t, err)
	compiled := time.Since(start)
	o := &launch.CompileOptions{Cache: disk(t, nil)}
	_, err = p.Compile(launch.FormatCubin, o)
	require.NoError(t, err)
	best := time.Hour
	for range 10 { // the best, as the machine is shared
		start = time.Now()
		_, err = p.Compile(launch.FormatCubin, o)
		best = min(best, time.Since(start))
		require.NoError(t, err)
	}
	t.Logf("compiled in %v, hit in %v: %.4f", compiled, best, float64(best)/float64(compiled))
	require.Less(t, float64(best), 0.02*float64(compiled))
}
