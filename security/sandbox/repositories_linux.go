//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"symbio/internal/security/protected"
)

const (
	// maxDirectories is the most directories below the writable directories of a command. Each
	// costs some 20 µs of a processor before and after it.
	maxDirectories = 200_000
	// maxDepth is the deepest nesting; each directory is held open while those below are read.
	maxDepth = 256
	// maxSetting is the most bytes of a file that are compared; of a larger one, size and time are.
	maxSetting = 1 << 20
)

// repositories compares the settings and hooks of git directories below the writable
// directories before and after commands. Entries that a command added or changed are set aside when it
// has ended, because the user's own git, outside the sandbox, would execute them. It may be used
// from many goroutines.
//
// Commands that overlap share one state: otherwise one could plant a hook that another is then
// taken to have found there. So a hook that the user changes meanwhile in such a repository is
// set aside, too; nothing is deleted.
type repositories struct {
	// mu is held during the walks, so that commands begin and end one after another.
	mu sync.Mutex
	// running counts the commands between begin and end; guarded by mu.
	running int
	// roots are the directories that were read for the running commands, and settings what was
	// found there, by path; guarded by mu. Both are kept until no command runs.
	roots    []string
	settings map[string]setting
}

// setting is the state of one configuration or hook, to be compared with ==.
type setting struct {
	// text is the content, or size and time of a large file.
	text string
	// odd says that it is a link, is no regular file, or cannot be read; "" for a plain file.
	odd  string
	mode fs.FileMode
}

// begin reads the settings below the roots before a command runs. If it returns nil, end must
// be called once. It returns an error when there are more than maxDirectories directories,
// since a part that is not compared would be unprotected.
func (r *repositories) begin(roots []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == 0 {
		r.roots, r.settings = nil, map[string]setting{}
	}
	for _, root := range roots {
		if anyAround(root, r.roots) {
			continue
		}
		if err := walk(root, maxDirectories, func(d *os.File, name string, _ bool) error {
			if path := filepath.Join(d.Name(), name); !anyAround(path, r.roots) {
				r.settings[path] = readSetting(d, name)
			}
			return nil
		}); err != nil {
			return err
		}
		r.roots = append(r.roots, root)
	}
	r.running++
	return nil
}

// end sets aside what is new or changed below the roots since begin, except below kept, which
// the command could not write. It returns one line for people for each file. It goes on after
// an error, so that one unreadable directory does not protect the others.
func (r *repositories) end(roots, kept []string) (lines []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	for _, root := range roots {
		err = errors.Join(err, walk(root, 2*maxDirectories, func(d *os.File, name string, config bool) error {
			path := filepath.Join(d.Name(), name)
			now, was := readSetting(d, name), r.settings[path]
			if now == was || anyAround(path, kept) {
				return nil
			}
			clean, why := was.text, "git runs this hook"
			if isObeyed(d.Name(), name) {
				why = "another program obeys it"
			}
			if config {
				var dropped []string
				if clean, dropped = reviewGit(now.text, was.text, func(tree string) bool { return isBelow(d.Name(), tree, root) }); now.odd == "" && len(dropped) == 0 {
					return nil
				}
				was.mode, why = 0o644, fmt.Sprintf("git executes or obeys %q", dropped)
			}
			aside, err := setAside(d, name, clean, was.mode)
			if aside != "" {
				lines = append(lines, fmt.Sprintf("%s: %s; it is now %s", path, why, aside))
			}
			return err
		}))
	}
	return lines, err
}

// isBelow reports whether a relative path in a git setting, seen from dir, leads to a place below
// root, also after symbolic links are followed. A place that does not exist yet counts by its name.
func isBelow(dir, path, root string) bool {
	at := filepath.Join(dir, path)
	real, err := filepath.EvalSymlinks(at)
	return !strings.ContainsAny(path, `\"`) && !filepath.IsAbs(path) && within(at, root) && (err != nil || within(real, root))
}

// setAside renames a file to NAME.set-aside-N, which no program reads, and writes text in its place
// unless that is empty. It never replaces a file. It returns the new name, "" if the file is gone.
// After an error it may have been renamed without its replacement: that is safe.
func setAside(d *os.File, name, text string, mode fs.FileMode) (aside string, err error) {
	fd := int(d.Fd())
	for n := 1; n == 1 || errors.Is(err, unix.EEXIST); n++ {
		aside = fmt.Sprintf("%s.set-aside-%d", name, n)
		err = unix.Renameat2(fd, name, fd, aside, unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err == nil && text != "" {
		var file int
		if file, err = unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, uint32(mode.Perm())); err == nil {
			f := os.NewFile(uintptr(file), name)
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return "", fmt.Errorf("set aside %s, which git may execute: %w", filepath.Join(d.Name(), name), err)
	}
	return aside, nil
}

// readSetting reads what git would read there, without blocking on a pipe. Of a file larger
// than maxSetting it takes size and time, so that no command can fill the memory.
func readSetting(d *os.File, name string) (s setting) {
	var link [4096]byte
	if n, err := unix.Readlinkat(int(d.Fd()), name, link[:]); err == nil {
		s.odd = "to " + string(link[:n])
	}
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		s.odd += " closed"
		return s
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		s.odd += " no file"
		return s
	}
	text, _ := io.ReadAll(io.LimitReader(f, maxSetting))
	s.text, s.mode = string(text), st.Mode()
	if st.Size() > maxSetting {
		s.text = fmt.Sprint(st.Size(), st.ModTime())
	}
	return s
}

// walker finds the configurations and hooks of git directories, and the settings of other version control programs.
// Names count in any case, since some file systems ignore it. It opens each directory below its parent's descriptor
// and follows no link, so that a path that is replaced meanwhile leads nowhere else.
type walker struct {
	// left is how many more directories it may read.
	left int
	// visit is called with the open directory, the file's name, and whether it is a configuration.
	visit func(d *os.File, name string, config bool) error
}

// walk calls visit for each configuration and hook below root, which may be missing. It returns the
// joined errors, and one if there are more than limit directories or they are nested too deeply.
func walk(root string, limit int, visit func(*os.File, string, bool) error) error {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return (&walker{limit, visit}).in(os.NewFile(uintptr(fd), root), false, 0)
}

// in visits one directory and all below it, and closes it. hooks says that it is a hooks directory,
// where git runs every file.
func (w *walker) in(d *os.File, hooks bool, depth int) (err error) {
	defer d.Close()
	var dirs, configs, others, obeyed []string
	var head, objects, refs bool
	for more := true; more && len(dirs) <= w.left; {
		entries, readErr := d.ReadDir(1024)
		// A directory that was removed after it was opened, as the masks of other commands are, has nothing.
		if more = readErr == nil; !more && !errors.Is(readErr, io.EOF) && !errors.Is(readErr, fs.ErrNotExist) {
			err = errors.Join(err, readErr)
		}
		for _, e := range entries {
			name := e.Name()
			head = head || strings.EqualFold(name, "HEAD")
			objects = objects || strings.EqualFold(name, "objects")
			refs = refs || strings.EqualFold(name, "refs")
			switch {
			case e.IsDir():
				dirs = append(dirs, name)
			case isObeyed(d.Name(), name):
				obeyed = append(obeyed, name)
			case strings.EqualFold(name, "config"), strings.EqualFold(name, "config.worktree"):
				configs = append(configs, name)
			case hooks && !strings.HasSuffix(name, ".sample"), strings.EqualFold(name, "hooks"):
				others = append(others, name)
			}
		}
	}
	if w.left -= len(dirs); w.left < 0 || depth > maxDepth {
		return fmt.Errorf("look for git repositories that would execute what a command wrote: %s has more than %d directories below it, or is nested deeper than %d: remove some, or give commands a smaller workspace", d.Name(), maxDirectories, maxDepth)
	}
	// Less than git itself asks for, which wants all three.
	isGit := head || objects && refs
	for _, name := range configs {
		if isGit {
			err = errors.Join(err, w.visit(d, name, true))
		}
	}
	if isGit || hooks {
		obeyed = append(obeyed, others...)
	}
	for _, name := range obeyed {
		err = errors.Join(err, w.visit(d, name, false))
	}
	for _, name := range dirs {
		err = errors.Join(err, w.below(d, name, isGit && strings.EqualFold(name, "hooks"), depth+1))
	}
	return err
}

// isObeyed reports whether a file, or a link to a directory, is or leads to settings of another version control program.
func isObeyed(dir, name string) bool {
	return slices.ContainsFunc(obeyedIn()[strings.ToLower(name)], func(in string) bool {
		return in == "" || strings.HasSuffix(strings.ToLower(dir), "/"+in)
	})
}

// obeyedIn has the directories of each part of the names of package protected; "" is any directory.
var obeyedIn = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, path := range protected.VersionControl() {
		in := ""
		for part := range strings.SplitSeq(path, "/") {
			all[part], in = append(all[part], in), strings.TrimPrefix(in+"/"+part, "/")
		}
	}
	return all
})

// below visits the directory name in parent. A directory without permissions for its own user is
// opened for that time: git can read a configuration in it without listing it. Directories of other
// users, and those that are gone or became something else, are skipped.
func (w *walker) below(parent *os.File, name string, hooks bool, depth int) error {
	const flags = unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err := unix.Openat(int(parent.Fd()), name, flags, 0)
	if errors.Is(err, fs.ErrPermission) {
		at, pathErr := unix.Openat(int(parent.Fd()), name, flags|unix.O_PATH, 0)
		if pathErr != nil {
			return nil
		}
		defer unix.Close(at)
		var st unix.Stat_t
		self := fmt.Sprintf("/proc/self/fd/%d", at)
		if unix.Fstat(at, &st) != nil || unix.Chmod(self, st.Mode&0o7777|0o700) != nil {
			// Another user's: no command has made it.
			return nil
		}
		defer unix.Chmod(self, st.Mode&0o7777)
		fd, err = unix.Openat(int(parent.Fd()), name, flags, 0)
	}
	path := filepath.Join(parent.Name(), name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // it went while this looked
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return w.in(os.NewFile(uintptr(fd), path), hooks, depth)
}
