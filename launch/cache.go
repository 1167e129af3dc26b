package launch

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// CacheKey identifies what a compilation gives: it is a digest of the source,
// headers, options, target, architecture and of the compiler itself.
type CacheKey [sha256.Size]byte

// String returns the key in hexadecimal.
func (k CacheKey) String() string { return hex.EncodeToString(k[:]) }

// Cache keeps what was compiled. What it gives back it was given before; a
// Cache that forgets or loses entries is still right. It may be used from
// several goroutines at once.
type Cache interface {
	// Get returns an entry, which the caller does not change; nil if there is
	// none. An error is for the statistics: it counts as none.
	Get(key CacheKey) ([]byte, error)
	// Put keeps an entry, which the caller does not change any more.
	Put(key CacheKey, entry []byte) error
}

// keyWriter makes a CacheKey: every part goes in with its length, so that
// different parts never give the same bytes.
type keyWriter struct{ h hash.Hash }

func newKey() keyWriter {
	k := keyWriter{sha256.New()}
	k.text("handoff compile cache 1")
	return k
}

func (k keyWriter) text(s string) {
	k.number(len(s))
	_, _ = k.h.Write([]byte(s))
}

func (k keyWriter) number(n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	_, _ = k.h.Write(b[:])
}

func (k keyWriter) texts(list []string) {
	k.number(len(list))
	for _, s := range list {
		k.text(s)
	}
}

func (k keyWriter) pairs(m map[string]string) {
	k.number(len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		k.text(name)
		k.text(m[name])
	}
}

func (k keyWriter) sum() (key CacheKey) {
	k.h.Sum(key[:0])
	return key
}

// An entry is a header, the map of symbols, the name and the code.
const entryMagic = "HOFFOBJ1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errEntry = errors.New("damaged entry")

// encodeEntry makes the bytes of an entry.
func encodeEntry(c *ObjectCode) []byte {
	b := make([]byte, 0, len(entryMagic)+64+len(c.code)+64*len(c.symbols))
	b = append(b, entryMagic...)
	b = append(b, 0, 0, 0, 0) // checksum of what follows
	b = binary.AppendUvarint(b, uint64(c.format))
	b = binary.AppendUvarint(b, uint64(len(c.symbols)))
	for _, name := range slices.Sorted(maps.Keys(c.symbols)) {
		b = appendText(appendText(b, name), c.symbols[name])
	}
	b = binary.AppendUvarint(b, uint64(len(c.code)))
	b = append(b, c.code...)
	body := b[len(entryMagic)+4:]
	binary.LittleEndian.PutUint32(b[len(entryMagic):], crc32.Checksum(body, castagnoli))
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeEntry reads an entry. The code is a part of b. Damaged bytes give an
// error.
func decodeEntry(b []byte) (f Format, symbols map[string]string, code []byte, err error) {
	head := len(entryMagic) + 4
	if len(b) < head || string(b[:len(entryMagic)]) != entryMagic ||
		binary.LittleEndian.Uint32(b[len(entryMagic):]) != crc32.Checksum(b[head:], castagnoli) {
		return 0, nil, nil, errEntry
	}
	r := entryReader{b: b[head:]}
	f = Format(r.number())
	n := r.number()
	if n > uint64(len(b)) {
		return 0, nil, nil, errEntry
	}
	symbols = make(map[string]string, n)
	for range n {
		name := string(r.bytes())
		symbols[name] = string(r.bytes())
	}
	code = r.bytes()
	if r.bad || len(r.b) != 0 || len(code) == 0 || f < FormatPTX || f > FormatOpaque {
		return 0, nil, nil, errEntry
	}
	return f, symbols, code, nil
}

type entryReader struct {
	b   []byte
	bad bool
}

func (r *entryReader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *entryReader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

// MemoryCache keeps entries in memory. The ones that were not used for longest
// go when it is full. The zero value is a cache of the default size, nil keeps
// nothing.
type MemoryCache struct {
	mu      sync.Mutex
	max     int64 // 0 for the default
	size    int64
	entries map[CacheKey]*list.Element
	order   list.List // of memoryEntry, last used first
}

// defaultMemory is what a MemoryCache takes if nothing is said.
const defaultMemory = 64 << 20

type memoryEntry struct {
	key   CacheKey
	entry []byte
}

// NewMemoryCache makes a cache of at most that many bytes; 0 is 64 MiB.
func NewMemoryCache(maxBytes int64) *MemoryCache {
	return &MemoryCache{max: max(maxBytes, 0)}
}

// Get implements [Cache].
func (c *MemoryCache) Get(key CacheKey) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		return nil, nil
	}
	c.order.MoveToFront(e)
	return e.Value.(memoryEntry).entry, nil
}

// Put implements [Cache]. An entry larger than the cache is not kept.
func (c *MemoryCache) Put(key CacheKey, entry []byte) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		c.remove(e)
	}
	n, most := int64(len(entry)), c.max
	if most == 0 {
		most = defaultMemory
	}
	if n > most {
		return nil
	}
	if c.entries == nil {
		c.entries = make(map[CacheKey]*list.Element)
	}
	c.entries[key] = c.order.PushFront(memoryEntry{key, entry})
	c.size += n
	for c.size > most {
		c.remove(c.order.Back())
	}
	return nil
}

func (c *MemoryCache) remove(e *list.Element) {
	m := c.order.Remove(e).(memoryEntry)
	delete(c.entries, m.key)
	c.size -= int64(len(m.entry))
}

// Len returns the number of entries, Size their bytes.
func (c *MemoryCache) Len() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// Size returns the number of bytes that the entries take.
func (c *MemoryCache) Size() int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Clear forgets all entries.
func (c *MemoryCache) Clear() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
	c.order.Init()
	c.size = 0
}

// layered asks several caches.
type layered []Cache

// LayeredCache asks caches in order, the fastest first. An entry that a later
// one has is given to those before it. Those that are nil are left out.
func LayeredCache(caches ...Cache) Cache {
	return layered(slices.DeleteFunc(slices.Clone(caches), func(c Cache) bool { return c == nil }))
}

// Get implements [Cache].
func (l layered) Get(key CacheKey) ([]byte, error) {
	var errs []error
	for i, c := range l {
		b, err := c.Get(key)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if b == nil {
			continue
		}
		for _, before := range l[:i] {
			if err := before.Put(key, b); err != nil {
				errs = append(errs, err)
			}
		}
		return b, errors.Join(errs...)
	}
	return nil, errors.Join(errs...)
}

// Put implements [Cache].
func (l layered) Put(key CacheKey, entry []byte) error {
	var errs []error
	for _, c := range l {
		if err := c.Put(key, entry); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

var defaultCache = sync.OnceValues(func() (Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("launch: default cache: %w", err)
	}
	disk, err := OpenDiskCache(filepath.Join(dir, "handoff", "kernels"), nil)
	if err != nil {
		return nil, err
	}
	return LayeredCache(NewMemoryCache(0), disk), nil
})

// DefaultCache returns the cache of this user, in memory and in the directory
// handoff/kernels of [os.UserCacheDir]. It is made once and shared.
func DefaultCache() (Cache, error) { return defaultCache() }
