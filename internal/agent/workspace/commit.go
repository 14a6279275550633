package workspace

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"symbio/internal/agent/content"
)

// TakeCommit is Take of the files of a commit that are below dir, which is a directory of its repository. They are written into the
// directory into, which must exist and be empty, as they are in the repository: no filter of git runs. Besides what Take leaves out,
// submodules are, and files that a .gitignore file excludes.
func TakeCommit(ctx context.Context, dir, commit, into string, o Options) (*Snapshot, error) {
	listed, err := runGit(ctx, dir, "ls-tree", "-r", "-z", commit)
	if err == nil {
		err = writeBlobs(ctx, dir, listed, into)
	}
	if err != nil {
		return nil, fmt.Errorf("take commit %s of %s: %w", commit, dir, err)
	}
	s, err := scan(ctx, into, o, nil, true)
	if err != nil {
		return nil, fmt.Errorf("take commit %s of %s: %w", commit, dir, err)
	}
	return &Snapshot{Manifest{commit, s.files}, s.omissions(), into}, nil
}

// writeBlobs writes the files of the output of git ls-tree.
func writeBlobs(ctx context.Context, dir, listed, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	var modes, names []string
	var hashes strings.Builder
	for entry := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		head, name, _ := strings.Cut(entry, "\t")
		if of := strings.Fields(head); len(of) == 3 && of[1] == "blob" {
			modes, names = append(modes, of[0]), append(names, name)
			hashes.WriteString(of[2] + "\n")
		}
	}
	out, err := runGitWith(ctx, gitCall{dir: dir, in: strings.NewReader(hashes.String())}, "cat-file", "--batch")
	r := bufio.NewReader(strings.NewReader(out))
	for i := 0; i < len(names) && err == nil; i++ {
		var head string
		head, err = r.ReadString('\n')
		of := strings.Fields(head)
		if err != nil || len(of) != 3 {
			return errors.Join(err, fmt.Errorf("%s is not in the repository", names[i]))
		}
		size, _ := strconv.ParseInt(of[2], 10, 64)
		err = errors.Join(root.MkdirAll(path.Dir(names[i]), 0o755), writeBlob(root, names[i], modes[i], io.LimitReader(r, size)))
		_, _ = r.ReadByte() // the line break behind it
	}
	return err
}

func writeBlob(root *os.Root, name, mode string, from io.Reader) error {
	data, err := io.ReadAll(from)
	switch {
	case err != nil:
		return err
	case mode == "120000":
		return root.Symlink(string(data), name)
	case mode == "100755":
		return root.WriteFile(name, data, 0o755)
	}
	return root.WriteFile(name, data, 0o644)
}

// Branch is a branch for the work of an agent. Tip is the commit that it names, "" = it does not exist yet; Base the one from which the
// agent's files are.
type Branch struct {
	Name string `json:"name"`
	Base string `json:"base"`
	Tip  string `json:"tip,omitempty"`
}

// Commit adds a commit to a branch of the repository of dir: the files of its base with the changes of the patch, which are those below
// dir. The contents come from store. It returns the branch as it is then; without a change to its tip that is the same one. Neither
// the files in dir nor its index change, and no hook or filter runs. The error is also that the branch is another one by now.
func (p Patch) Commit(ctx context.Context, dir string, b Branch, message string, store *content.Store) (Branch, error) {
	temp, err := os.MkdirTemp("", "symbio-commit-")
	if err != nil {
		return b, err
	}
	defer os.RemoveAll(temp)
	git := func(in io.Reader, args ...string) (out string) {
		if err == nil {
			out, err = runGitWith(ctx, gitCall{dir: dir, in: in, index: filepath.Join(temp, "index")}, args...)
		}
		return strings.TrimSpace(out)
	}
	parent := cmp.Or(b.Tip, b.Base)
	prefix, before := git(nil, "rev-parse", "--show-prefix"), git(nil, "rev-parse", parent+"^{tree}")
	git(nil, "read-tree", b.Base)
	var entries bytes.Buffer
	for _, f := range p.Changes {
		mode, blob := map[Kind]string{Regular: "100644", Executable: "100755", Link: "120000", Deleted: "0"}[f.Kind], strings.Repeat("0", len(b.Base))
		var in io.ReadCloser = io.NopCloser(strings.NewReader(f.Link))
		if f.Kind.hasContent() && err == nil {
			in, err = store.Open(f.Hash)
		}
		if err != nil {
			break
		}
		if f.Kind != Deleted {
			blob = git(in, "hash-object", "-w", "--no-filters", "--stdin")
		}
		_ = in.Close()
		fmt.Fprintf(&entries, "%s %s\t%s%s\x00", mode, blob, prefix, f.Path)
	}
	git(&entries, "update-index", "-z", "--add", "--index-info")
	tree := git(nil, "write-tree")
	if err == nil && tree != before {
		old := b.Tip
		b.Tip = git(nil, "commit-tree", "--no-gpg-sign", "-p", parent, "-m", message, tree)
		git(nil, "update-ref", "-m", "symbio: work of an agent", "refs/heads/"+b.Name, b.Tip, old)
	}
	if err != nil {
		return b, fmt.Errorf("commit to branch %s of %s: %w", b.Name, dir, err)
	}
	return b, nil
}

// Head returns the commit that a name means in the repository of dir, such as HEAD or refs/heads/NAME. The error says that there is
// none, or no repository.
func Head(ctx context.Context, dir, name string) (string, error) {
	out, err := runGit(ctx, dir, "rev-parse", "--verify", "--quiet", name+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%s is in no git repository with a commit %s: %w", dir, name, err)
	}
	return strings.TrimSpace(out), nil
}

// Top returns the top directory of the repository of dir, else dir itself, without links.
func Top(ctx context.Context, dir string) string {
	if top, err := runGit(ctx, dir, "rev-parse", "--show-toplevel"); err == nil {
		return filepath.Clean(strings.TrimSuffix(top, "\n"))
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}
