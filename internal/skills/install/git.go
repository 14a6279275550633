package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/internal/security/gitenv"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
	"symbio/skills/format"
)

const (
	// gitTimeout limits one run of git.
	gitTimeout = 5 * time.Minute
	// maxListing limits what git prints of references and trees, in bytes.
	maxListing = 16 << 20
	// runGit limits each file that git writes to 256 MiB, in blocks of 512 bytes: git itself has no
	// limit for the one pack that it fetches. A server may send many messages, too.
	runGit = `ulimit -f 524288; cd "$0"; exec git "$@" >out 2>messages`
	// noAttributes take precedence over all others: a source's attributes could change files, leave them
	// out, or name a filter that the user's configuration has a command for, such as the LFS filter.
	noAttributes = "* -text -eol -ident -filter -working-tree-encoding -export-ignore -export-subst\n"
)

// ErrNoRef means that a repository does not have a branch, tag or commit.
var ErrNoRef = errors.New("the repository has no such branch, tag or commit")

// commitID is a full commit.
var commitID = lazyregexp.New(`^[0-9a-f]{40}$`)

// repo reads a repository at url through a bare one of our own, in dir. ref is the full name of the
// reference, commit the commit that it names, and newer a tag with a newer version than ref.
type repo struct {
	dir, url, ref, commit, newer string
	fetched                      bool
}

// git runs git and returns at most maxListing bytes of its output; the file out has all of it.
// Nothing of a source is executed: our repository has no working tree, so there is nothing to run a
// hook or a submodule for. Of configurations only the user's counts, for credentials and proxies.
func (r *repo) git(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitTimeout, fmt.Errorf("git takes longer than %v", gitTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", runGit, r.dir, "--git-dir=.", "-c", "gc.auto=0", "-c", "fetch.unpackLimit=1"}, args...)...)
	cmd.WaitDelay = time.Second
	// Variables such as GIT_DIR would lead git to another repository.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	cmd.Env = append(append(cmd.Env, gitenv.Hardened()...), "GIT_ALLOW_PROTOCOL=file:https:ssh", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	if err := cmd.Run(); err != nil {
		text, _ := readFile(r.dir, "messages", 400)
		return "", fmt.Errorf("git: %w: %s", errors.Join(err, context.Cause(ctx)), visible.Line(text, 400))
	}
	return readFile(r.dir, "out", maxListing)
}

// readFile returns at most limit bytes of a file.
func readFile(dir, name string, limit int64) (string, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return string(data), err
}

// resolve finds the full name and the commit of a reference. "" is HEAD, a commit is itself, and of a
// tag and a branch of one name it is the tag, as for git. An annotated tag is the commit it names.
func (r *repo) resolve(ctx context.Context, ref string) error {
	if _, err := r.git(ctx, "init", "--bare", "--quiet", "--template="); err != nil || commitID().MatchString(ref) {
		r.ref, r.commit = ref, ref
		return err
	}
	text, err := r.git(ctx, "ls-remote", "--quiet", "--", r.url)
	if err != nil {
		return err
	}
	refs, known := map[string]string{}, []string{}
	for line := range strings.Lines(text) {
		commit, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		// The line with ^{} comes after the line of the tag object, and replaces it.
		name = strings.TrimSuffix(name, "^{}")
		refs[name], known = commit, append(known, shortRef(name))
	}
	for _, name := range []string{cmp.Or(ref, "HEAD"), "refs/tags/" + ref, "refs/heads/" + ref} {
		if r.ref, r.commit = name, refs[name]; commitID().MatchString(r.commit) {
			r.newer = newerTag(refs, name)
			return nil
		}
	}
	return fmt.Errorf("%w: %q%s", ErrNoRef, cmp.Or(ref, "HEAD"), visible.Suggest(ref, known))
}

// newerTag returns the tag with the newest version, if ref is a tag with an older one. Versions before
// a release do not count.
func newerTag(refs map[string]string, ref string) (newer string) {
	if _, err := format.ParseVersion(shortRef(ref)); err != nil || !strings.HasPrefix(ref, "refs/tags/") {
		return ""
	}
	for name := range refs {
		tag, ok := strings.CutPrefix(name, "refs/tags/")
		if ok && !strings.Contains(tag, "-") && format.Compare(tag, cmp.Or(newer, shortRef(ref))) > 0 {
			newer = tag
		}
	}
	return newer
}

// shortRef returns a full name of a reference as people write it.
func shortRef(full string) string {
	return strings.TrimPrefix(strings.TrimPrefix(full, "refs/tags/"), "refs/heads/")
}

// fetch gets what the reference names, once and without its history.
func (r *repo) fetch(ctx context.Context) error {
	if r.fetched {
		return nil
	}
	_, err := r.git(ctx, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", r.url, r.ref)
	info := filepath.Join(r.dir, "info")
	err = errors.Join(err, os.MkdirAll(info, 0o700), os.WriteFile(filepath.Join(info, "attributes"), []byte(noAttributes), 0o600))
	r.fetched = err == nil
	return err
}

// entries returns the files of the commit below path, "" = all. If the reference has moved since it
// was resolved, git does not have the commit, and that is the error.
func (r *repo) entries(ctx context.Context, path string) ([]entry, error) {
	if err := r.fetch(ctx); err != nil {
		return nil, err
	}
	// An archive has nothing for a submodule, so the tree is asked for them.
	text, err := r.git(ctx, "ls-tree", "-r", "-z", "--full-tree", r.commit)
	if err != nil {
		return nil, err
	}
	u := unpacker{packed: maxUnpacked}
	args, found := []string{"archive", "--format=tar", r.commit}, path == "" || path == "."
	if !found {
		args = append(args, "--", ":(literal)"+path)
	}
	for line := range strings.SplitSeq(text, "\x00") {
		meta, name, _ := strings.Cut(line, "\t")
		if strings.HasPrefix(meta, "160000 ") {
			u.files = append(u.files, entry{path: name, mode: fs.ModeIrregular})
		}
		found = found || strings.HasPrefix(name, path+"/")
	}
	if !found { // git archive would fail
		return nil, nil
	}
	if _, err := r.git(ctx, args...); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(r.dir, "out"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = u.tar(f)
	return u.files, err
}

// Fetcher keeps the repositories that it has fetched until Close, so that fifty skills of one are one
// fetch. The zero value is usable, by one goroutine.
type Fetcher struct{ repos map[Source]*repo }

// Close deletes what was fetched.
func (f *Fetcher) Close() (err error) {
	for _, r := range f.repos {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

// repo returns the repository of a source, with its reference resolved and not yet fetched. It is
// nil if the source is none: a path is a folder or an archive, unless it is a bare repository or a
// reference is named.
func (f *Fetcher) repo(ctx context.Context, s Source) (*repo, error) {
	if _, err := os.Stat(filepath.Join(s.Location, "objects")); s.Local() && s.Ref == "" && err != nil {
		return nil, nil
	}
	s.Path = ""
	if r := f.repos[s]; r != nil {
		return r, nil
	}
	dir, err := os.MkdirTemp("", "symbio-skills-")
	if err != nil {
		return nil, err
	}
	r := &repo{dir: dir, url: s.Location}
	if err := r.resolve(ctx, s.Ref); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", s, err), os.RemoveAll(dir))
	}
	if f.repos == nil {
		f.repos = map[Source]*repo{}
	}
	f.repos[s] = r
	return r, nil
}
