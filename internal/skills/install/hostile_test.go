package install_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/skills/install"
	"symbio/internal/skills/share"
)

// hostileRepo returns a repository whose skill "notes" has more entries, as lines for git mktree,
// with %s for the id of a blob with the text.
func hostileRepo(entries, text string) func(t *testing.T, marker string) string {
	return func(t *testing.T, _ string) string {
		dir := filepath.Join(t.TempDir(), "notes.git")
		git(t, t.TempDir(), "init", "-q", "--bare", dir)
		skill := gitInput(t, dir, skillText("notes", "Read", "x"), "hash-object", "-w", "--stdin")
		blob := gitInput(t, dir, text, "hash-object", "-w", "--stdin")
		lines := strings.ReplaceAll("100644 blob "+skill+"\tSKILL.md\n"+entries, "%s", blob)
		tree := gitInput(t, dir, strings.ReplaceAll(lines, "\n", "\x00"), "mktree", "-z", "--missing")
		outer := gitInput(t, dir, "040000 tree "+tree+"\tnotes\n", "mktree")
		git(t, dir, "update-ref", "refs/heads/main", git(t, dir, "commit-tree", "-m", "x", outer))
		git(t, dir, "symbolic-ref", "HEAD", "refs/heads/main")
		return dir
	}
}

// hostileTar returns a .tar.gz with the skill "notes" and these entries.
func hostileTar(headers ...tar.Header) func(t *testing.T, marker string) string {
	return func(t *testing.T, _ string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		text := skillText("notes", "Read", "x")
		headers = append([]tar.Header{{Name: "notes/SKILL.md", Size: int64(len(text)), Mode: 0o644}}, headers...)
		for i, h := range headers {
			body := bytes.Repeat([]byte{0}, int(h.Size))
			if i == 0 {
				body = []byte(text)
			}
			err := w.WriteHeader(&h)
			_, writeErr := w.Write(body)
			if err := errors.Join(err, writeErr); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "notes.tar.gz")
		write(t, file, b.String())
		return file
	}
}

// hostileZip returns a .zip with the skill "notes" and an entry of size zeros.
func hostileZip(h zip.FileHeader, mode fs.FileMode, size int) func(t *testing.T, marker string) string {
	return func(t *testing.T, _ string) string {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		f, err := w.Create("notes/SKILL.md")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write([]byte(skillText("notes", "Read", "x")))
		h.Method = zip.Deflate
		h.SetMode(mode)
		g, createErr := w.CreateHeader(&h)
		if err := errors.Join(err, createErr); err != nil {
			t.Fatal(err)
		}
		_, err = g.Write(bytes.Repeat([]byte{0}, size))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "notes.zip")
		write(t, file, b.String())
		return file
	}
}

// hostileFolder returns a folder with the skill "notes", to which spoil adds something.
func hostileFolder(spoil func(dir string) error) func(t *testing.T, marker string) string {
	return func(t *testing.T, _ string) string {
		dir := filepath.Join(t.TempDir(), "notes")
		write(t, filepath.Join(dir, "SKILL.md"), skillText("notes", "Read", "x"))
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
}

// text returns a source that is only a text; %s is the marker.
func text(source string) func(t *testing.T, marker string) string {
	return func(_ *testing.T, marker string) string { return strings.ReplaceAll(source, "%s", marker) }
}

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"

func many(n int) (all []tar.Header) {
	for i := range n {
		all = append(all, tar.Header{Name: fmt.Sprint("notes/", i, "/"), Typeflag: tar.TypeDir})
	}
	return all
}

func manyFiles(n int) (all []tar.Header) {
	for i := range n {
		all = append(all, tar.Header{Name: fmt.Sprint("notes/f", i), Mode: 0o644})
	}
	return all
}

func TestHostileSourcesAreRefused(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "executed")
	for name, row := range map[string]struct {
		source func(t *testing.T, marker string) string
		want   error
		says   string
	}{
		"a remote helper that runs a command": {text("ext::sh -c 'touch %s'"), install.ErrSource, "run a program"},
		"a remote helper before a URL":        {text("git::https://example.com/x"), install.ErrSource, "https://example.com/x"},
		"an option":                           {text("--upload-pack=touch %s"), install.ErrSource, ""},
		"an option as a reference":            {text("https://example.com/x#--upload-pack=touch%s"), install.ErrSource, ""},
		"an option as a host":                 {text("ssh://-oProxyCommand=touch%s/x"), install.ErrSource, ""},
		"an option as a user":                 {text("-oProxyCommand=touch@host:x"), install.ErrSource, ""},
		"an option as a path":                 {text("ann@host:-x"), install.ErrSource, ""},
		"plain http":                          {text("http://example.com/x.git"), install.ErrSource, "https://example.com/x.git"},
		"a password":                          {text("https://ann:secret@example.com/x"), install.ErrSource, "credential helper"},
		"a path out of the source":            {text("https://example.com/x//../../etc"), install.ErrSource, ""},
		"an absolute path in the source":      {text("https://example.com/x///etc"), install.ErrSource, ""},
		"a control character":                 {text("https://example.com/x\x1b[2J"), install.ErrSource, ""},
		"a scheme that is not read":           {text("ftp://example.com/x"), install.ErrSource, ""},

		"git: a link that leaves":           {hostileRepo("120000 blob %s\tlink\n", "/etc/passwd"), share.ErrKind, "link"},
		"git: a link that stays":            {hostileRepo("120000 blob %s\tlink\n", "SKILL.md"), share.ErrKind, "link"},
		"git: a submodule":                  {hostileRepo("160000 commit 0123456789012345678901234567890123456789\tsub\n", ""), share.ErrKind, "submodule"},
		"git: a pointer of LFS":             {hostileRepo("100644 blob %s\tlarge.bin\n", pointer), share.ErrKind, "git lfs pull"},
		"git: a control character":          {hostileRepo("100644 blob %s\ta\x07b\n", ""), share.ErrPath, ""},
		"git: a direction override":         {hostileRepo("100644 blob %s\ta\u202etxt.exe\n", ""), share.ErrPath, ""},
		"git: a device of Windows":          {hostileRepo("100644 blob %s\tAUX.md\n", ""), share.ErrPath, "device"},
		"git: a stream of Windows":          {hostileRepo("100644 blob %s\taa:b\n", ""), share.ErrPath, ""},
		"git: a path of Windows":            {hostileRepo("100644 blob %s\ta\\b\n", ""), install.ErrRefused, ""},
		"git: names that differ by case":    {hostileRepo("100644 blob %s\tREADME.md\n100644 blob %s\treadme.md\n", ""), share.ErrPath, "one file"},
		"git: names that differ by Unicode": {hostileRepo("100644 blob %s\te\u0301\n100644 blob %s\t\u00e9\n", ""), share.ErrPath, "one file"},
		"git: a large file":                 {hostileRepo("100644 blob %s\tbig\n", strings.Repeat("x", 1<<20+1)), share.ErrTooLarge, ""},
		"git: a name that goes up":          {hostileRepo("100644 blob %s\t..\n", ""), nil, "invalid path"},
		"git: an object that is missing":    {hostileRepo("100644 blob 0123456789012345678901234567890123456789\tgone\n", ""), nil, "git: "},

		"tar: a path that goes up":                 {hostileTar(tar.Header{Name: "../../evil"}), install.ErrRefused, "inside"},
		"tar: a path that goes up within":          {hostileTar(tar.Header{Name: "notes/../../evil"}), install.ErrRefused, "inside"},
		"tar: an absolute path":                    {hostileTar(tar.Header{Name: "/etc/evil"}), install.ErrRefused, "inside"},
		"tar: a link":                              {hostileTar(tar.Header{Name: "notes/l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), share.ErrKind, "link"},
		"tar: a hard link":                         {hostileTar(tar.Header{Name: "notes/l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), share.ErrKind, "link"},
		"tar: a device":                            {hostileTar(tar.Header{Name: "notes/d", Typeflag: tar.TypeChar}), share.ErrKind, "device"},
		"tar: a pipe":                              {hostileTar(tar.Header{Name: "notes/p", Typeflag: tar.TypeFifo}), share.ErrKind, ""},
		"tar: a file with the rights of its owner": {hostileTar(tar.Header{Name: "notes/s", Mode: 0o4755}), share.ErrKind, "special rights"},
		"tar: a file twice":                        {hostileTar(tar.Header{Name: "notes/a"}, tar.Header{Name: "./notes/a"}), share.ErrKind, "twice"},
		"tar: a large file":                        {hostileTar(tar.Header{Name: "notes/a", Size: 1<<20 + 1}), share.ErrTooLarge, ""},
		"tar: a bomb":                              {hostileTar(tar.Header{Name: "notes/a", Size: 32 << 20}), install.ErrRefused, "bombs"},
		"tar: a bomb beside the skill":             {hostileTar(tar.Header{Name: "other/a", Size: 32 << 20}), install.ErrRefused, "bombs"},
		"tar: too many directories":                {hostileTar(many(20_001)...), install.ErrRefused, "entries"},
		"tar: too many files of a skill":           {hostileTar(manyFiles(201)...), share.ErrTooLarge, ""},
		"zip: a path that goes up":                 {hostileZip(zip.FileHeader{Name: "../evil"}, 0o644, 0), install.ErrRefused, "inside"},
		"zip: a path of Windows":                   {hostileZip(zip.FileHeader{Name: `notes\..\evil`}, 0o644, 0), install.ErrRefused, "inside"},
		"zip: a drive of Windows":                  {hostileZip(zip.FileHeader{Name: `c:evil`}, 0o644, 0), install.ErrRefused, "inside"},
		"zip: a link":                              {hostileZip(zip.FileHeader{Name: "notes/l"}, 0o777|fs.ModeSymlink, 5), share.ErrKind, "link"},
		"zip: a bomb":                              {hostileZip(zip.FileHeader{Name: "notes/a"}, 0o644, 32<<20), install.ErrRefused, "bombs"},
		"an archive that is none":                  {hostileFolder(func(dir string) error { return os.WriteFile(dir+"/../x", nil, 0o600) }), nil, ""},

		"folder: a link that leaves": {hostileFolder(func(dir string) error { return os.Symlink("/etc/passwd", dir+"/link") }), share.ErrKind, ""},
		"folder: a file with the rights of its owner": {hostileFolder(func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/s", nil, 0o755), os.Chmod(dir+"/s", 0o755|fs.ModeSetuid))
		}), share.ErrKind, "rights"},
		"folder: a pointer of LFS": {hostileFolder(func(dir string) error { return os.WriteFile(dir+"/large.bin", []byte(pointer), 0o600) }), share.ErrKind, "LFS"},
		"folder: a name of another skill": {hostileFolder(func(dir string) error {
			return os.WriteFile(dir+"/SKILL.md", []byte(skillText("other", "Read", "x")), 0o600)
		}), share.ErrSkill, ""},
		"folder: no skill": {hostileFolder(func(dir string) error { return os.Remove(dir + "/SKILL.md") }), install.ErrNoSkill, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			source := row.source(t, marker)
			if name == "an archive that is none" {
				source = filepath.Join(filepath.Dir(source), "x")
			}
			changes, err := p.plan(source)
			if err == nil || row.want != nil && !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want %v with %q", err, row.want, row.says)
			}
			if strings.ContainsAny(fmt.Sprint(err), "\x1b\x07\u202e") {
				t.Errorf("the error has characters that cannot be seen: %q", err)
			}
			if len(changes) > 0 {
				t.Errorf("planned: %+v", changes)
			}
			if entries, _ := os.ReadDir(p.dir); len(entries) > 0 {
				t.Errorf("written: %v", entries)
			}
		})
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("something was executed")
	}
}

// TestRepositoryExecutesNothing has repositories on this machine whose own configuration, hooks and
// attributes name commands. Their skills can be installed, byte for byte.
func TestRepositoryExecutesNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "executed")
	touch := "touch " + marker
	r := newTeam(t, 1)
	skill := filepath.Join(r.work, "all", "skill-00")
	write(t, filepath.Join(r.work, ".gitattributes"), "* filter=evil diff=evil merge=evil text eol=crlf ident\n*.txt export-ignore\n*.md export-subst\n")
	write(t, filepath.Join(skill, "a.txt"), "$Id$ $Format:%H$\n")
	write(t, filepath.Join(r.work, ".gitmodules"), "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c '"+touch+"'\n\tupdate = !"+touch+"\n")
	write(t, filepath.Join(r.work, ".lfsconfig"), "[lfs]\n\turl = ext::"+touch+"\n")
	r.push("v1")
	for _, name := range []string{"post-checkout", "post-update", "pre-push", "reference-transaction", "fsmonitor-watchman", "update",
		"post-upload-pack"} {
		file := filepath.Join(r.bare, "hooks", name)
		write(t, file, "#!/bin/sh\n"+touch+"\n")
		if err := os.Chmod(file, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"core.fsmonitor": touch, "core.sshCommand": touch, "core.pager": touch, "core.editor": touch, "core.gitProxy": touch,
		"uploadpack.packObjectsHook": touch + ";", "uploadarchive.allowUnreachable": "true", "tar.tar.command": touch,
		"filter.evil.smudge": touch, "filter.evil.clean": touch, "filter.evil.process": touch, "diff.evil.textconv": touch,
		"core.alternateRefsCommand": touch, "gpg.program": touch, "credential.helper": "!" + touch, "core.attributesFile": "/dev/null",
		"remote.origin.url": "ext::sh -c '" + touch + "'", "remote.origin.promisor": "true", "remote.origin.uploadpack": touch,
		"protocol.ext.allow": "always", "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1",
	} {
		git(t, r.bare, "config", key, value)
	}
	// The user's own configuration has such commands, too, as git lfs install writes them.
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, home)
	}
	write(t, filepath.Join(home, ".gitconfig"),
		"[filter \"evil\"]\n\tsmudge = "+touch+"\n\tprocess = "+touch+"\n\trequired = true\n[core]\n\tfsmonitor = "+touch+"\n\thooksPath = "+filepath.Join(r.bare, "hooks")+
			"\n[tar \"tar\"]\n\tcommand = "+touch+"\n[protocol \"ext\"]\n\tallow = always\n")
	elsewhere := t.TempDir()
	t.Setenv("GIT_OBJECT_DIRECTORY", elsewhere)
	p := newPlace(t)
	p.add(r.bare)
	if l, err := p.Find("skill-00"); err != nil || len(l.Files) != 3 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, file := range []string{"a.txt", "SKILL.md"} {
		want, err := os.ReadFile(filepath.Join(skill, file))
		got, err2 := os.ReadFile(filepath.Join(p.Dir("skill-00"), file))
		if err := errors.Join(err, err2); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q (%v)", file, got, want, err)
		}
	}
	if err := os.Unsetenv("GIT_OBJECT_DIRECTORY"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("a variable leads git elsewhere: %v, %v", entries, err)
	}
	// An object that is missing would be asked from the remote, by a command.
	var gone string
	for line := range strings.Lines(git(t, r.work, "ls-tree", "-r", "main")) {
		if fields := strings.Fields(line); strings.HasSuffix(line, "a.txt\n") || strings.HasSuffix(line, "a.txt") {
			gone = fields[2]
		}
	}
	if err := os.RemoveAll(filepath.Join(r.bare, "objects", gone[:2], gone[2:])); err != nil {
		t.Fatal(err)
	}
	if _, err := newPlace(t).plan("file://" + r.bare); err == nil {
		t.Fatal("the object was still there")
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("something was executed")
	}
}
