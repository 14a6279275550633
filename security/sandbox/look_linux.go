//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"symbio/security/sandbox/internal/inside"
)

// scratchMost is the most bytes that a command with a home of its own writes there and in /tmp together. Layers over
// caches may have half as much beside it.
const scratchMost = 1 << 30

// planHome gives the command a home and a /tmp of its own, and decides what else it sees: the system's directories, what
// the policy names, toolchains, and layers over caches. Everything else at the top of the file system is empty. A path that is
// hidden is not shown, and a cache with something hidden in it is no cache. Links are followed only in the policy's own
// paths: one that a command has put somewhere must not show more.
func (b *Box) planHome(j *job, f Files, hidden []string) error {
	j.Temp = "/tmp"
	if slices.Contains(f.Read, j.Temp) || j.writes(j.Temp) {
		j.Temp = "/var/tmp"
	}
	j.Scratch.Private, j.home = []string{j.Temp}, j.Temp
	home := b.home()
	seen := append(slices.Clone(f.Read), f.Write...)
	for _, k := range j.Kept {
		seen = append(seen, k.Path)
	}
	if j.Kept = nil; home != "" && !anyAround(home, slices.Concat(seen, ownSystem)) && !anyBelow(home, ownSystem) {
		j.Scratch.Private, j.home = append(j.Scratch.Private, home), home
	}
	seen = slices.DeleteFunc(slices.Concat(seen, system(), plain(b.toolPaths(home))), func(path string) bool { return anyAround(path, hidden) })
	top, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range top {
		path := "/" + e.Name()
		if anyAround(path, slices.Concat(seen, j.Scratch.Private)) {
			continue
		}
		if e.IsDir() {
			j.Scratch.Bare = append(j.Scratch.Bare, path)
		} else if e.Type().IsRegular() {
			j.Hide = append(j.Hide, path)
		}
	}
	covered := slices.Concat(j.Scratch.Bare, j.Scratch.Private)
	shown := slices.DeleteFunc(slices.Clone(seen), func(path string) bool {
		// A writable directory is mounted by itself.
		return slices.Contains(covered, path) || !anyAround(path, covered) || j.writes(path)
	})
	if j.Show, err = places(slices.DeleteFunc(shown, func(path string) bool { return !isThere(path) })); err != nil {
		return err
	}
	b.planLayers(j, slices.Concat(hidden, j.Scratch.Private, []string{home}), hidden)
	j.Read, j.List = seen, []string{"/"}
	// An unseen path need not be hidden.
	j.Hide = append(j.Hide, slices.DeleteFunc(hidden, func(path string) bool { return !anyAround(path, seen) })...)
	return nil
}

// planLayers gives the command layers over the caches of builds: the user's own are read, and its writes there go with
// it. A cache that is around one of the paths inner, or in one of outer, has none.
func (b *Box) planLayers(j *job, inner, outer []string) {
	for _, path := range plain(b.cachePaths(b.home())) {
		if !anyAround(path, slices.Concat(outer, j.Scratch.Layers)) && !anyBelow(path, inner) {
			j.Scratch.Layers = append(j.Scratch.Layers, path)
		}
	}
	j.Scratch.Size = scratchSize()
}

// ownSystem are directories that no private home may cover, though they are the homes of some of the system's users.
var ownSystem = []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/share", "/usr/local", "/usr/games", "/bin", "/sbin", "/lib", "/etc", "/proc", "/sys", "/dev"}

// anyBelow reports whether one of the paths is dir, or is below it.
func anyBelow(dir string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return within(path, dir) })
}

// plain returns the directories that are there and are reached without a link.
func plain(paths []string) (out []string) {
	for _, path := range paths {
		fd, err := inside.OpenPlain(filepath.Clean(path))
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && !slices.Contains(out, path) {
			out = append(out, path)
		}
		unix.Close(fd)
	}
	return out
}

// scratchSize is a quarter of the machine's memory at most.
func scratchSize() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return scratchMost / 8
	}
	return int(min(scratchMost, uint64(info.Totalram)*uint64(info.Unit)/4))
}
