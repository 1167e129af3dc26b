package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// DiskOptions tune [OpenDiskCache]. The zero value is the default.
type DiskOptions struct {
	// MaxBytes is the size of all entries that is kept; 0 is 512 MiB. The ones
	// that were not used for longest go first. It may be passed for a moment,
	// and processes that share a directory should agree on it.
	MaxBytes int64
}

// DiskCache keeps entries in a directory, one a file. Processes may share it:
// a file appears with its whole content, by a rename, and one that is being
// read can be removed. It needs no Close.
type DiskCache struct {
	dir string
	max int64

	mu    sync.Mutex
	known int64 // what all entries take: as counted last, and what was added here since
	puts  int   // since it was counted; -1: never
}

const (
	entrySuffix = ".kernel"
	tempPrefix  = "new-"
	// tempAge is how old a file of a writer that died is when it is removed.
	tempAge = time.Hour
	// useAge is how exactly the time of the last use is kept: setting it costs
	// more than reading a small file.
	useAge = time.Minute
	// countEvery is after how many entries the directory is looked at again,
	// for what other processes have added.
	countEvery = 64
)

// OpenDiskCache uses a directory, and makes it if need be, for this user only.
// opts may be nil.
func OpenDiskCache(dir string, opts *DiskOptions) (*DiskCache, error) {
	c := &DiskCache{max: 512 << 20, puts: -1}
	if opts != nil && opts.MaxBytes != 0 {
		c.max = opts.MaxBytes
	}
	if c.max < 0 {
		return nil, invalid("disk cache %s: MaxBytes is %d", dir, c.max)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("launch: disk cache: %w", err)
	}
	c.dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("launch: disk cache: %w", err)
	}
	return c, nil
}

// Dir returns the directory.
func (c *DiskCache) Dir() string {
	if c == nil {
		return ""
	}
	return c.dir
}

// made refuses nil and the zero DiskCache, which would be the current
// directory.
func (c *DiskCache) made() error {
	if c.Dir() == "" {
		return invalid("disk cache: no directory")
	}
	return nil
}

// path spreads the entries over 256 directories.
func (c *DiskCache) path(key CacheKey) string {
	s := key.String()
	return filepath.Join(c.dir, s[:2], s[2:]+entrySuffix)
}

// Get implements [Cache]. An entry that is damaged is removed.
func (c *DiskCache) Get(key CacheKey) ([]byte, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	path := c.path(key)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("launch: disk cache: %w", err)
	}
	if _, _, _, err := decodeEntry(b); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("launch: disk cache: %s: %w", path, err)
	}
	now := time.Now()
	if st, err := os.Stat(path); err == nil && now.Sub(st.ModTime()) > useAge {
		_ = os.Chtimes(path, now, now) // another process may have removed it
	}
	return b, nil
}

// Put implements [Cache].
func (c *DiskCache) Put(key CacheKey, entry []byte) error {
	if err := c.made(); err != nil {
		return err
	}
	if int64(len(entry)) > c.max {
		return nil
	}
	if err := c.write(c.path(key), entry); err != nil {
		return fmt.Errorf("launch: disk cache: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known += int64(len(entry))
	if c.puts++; c.puts != 0 && c.puts < countEvery && c.known <= c.max {
		return nil
	}
	c.puts = 0
	return c.trim()
}

// write makes a file appear at once.
func (c *DiskCache) write(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		f, err = os.CreateTemp(dir, tempPrefix+"*")
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// trim counts the entries and removes the oldest ones if there are too many.
// The caller holds c.mu; other processes may do the same.
func (c *DiskCache) trim() error {
	type file struct {
		path string
		size int64
		used time.Time
	}
	var files []file
	var total int64
	now := time.Now()
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // gone in the meantime
		}
		st, err := d.Info()
		if err != nil {
			return nil
		}
		switch name := d.Name(); {
		case strings.HasSuffix(name, entrySuffix):
			files = append(files, file{path, st.Size(), st.ModTime()})
			total += st.Size()
		case strings.HasPrefix(name, tempPrefix) && now.Sub(st.ModTime()) > tempAge:
			_ = os.Remove(path)
		}
		return nil
	})
	if total > c.max {
		slices.SortFunc(files, func(a, b file) int { return a.used.Compare(b.used) })
		goal := c.max - c.max/10 // so that the next entry does not do this again
		for _, f := range files {
			if total <= goal {
				break
			}
			if e := os.Remove(f.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
				continue
			}
			total -= f.size
		}
	}
	c.known = total
	if err != nil {
		return fmt.Errorf("launch: disk cache: %w", err)
	}
	return nil
}

// Size counts the bytes that the entries take now.
func (c *DiskCache) Size() (int64, error) {
	if err := c.made(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.trim()
	return c.known, err
}

// Clear removes all entries.
func (c *DiskCache) Clear() error {
	if err := c.made(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = 0
	var errs []error
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, entrySuffix) {
			if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
				errs = append(errs, e)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("launch: disk cache: %w", err)
	}
	return nil
}
