//go:build !windows

package pathfinder

import "io/fs"

func isExecutable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }
