package workspace_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/agent/content"
	"symbio/internal/agent/workspace"
)

var limits = workspace.Limits{Files: 10, Size: 1000, FileSize: 500}

func file(path string) workspace.File {
	return workspace.File{Path: path, Kind: workspace.Regular, Size: 1, Hash: content.Sum([]byte(path))}
}

func link(path, target string) workspace.File {
	return workspace.File{Path: path, Kind: workspace.Link, Link: target}
}

func deleted(path string) workspace.File {
	return workspace.File{Path: path, Kind: workspace.Deleted}
}

func sized(path string, size int64) workspace.File {
	f := file(path)
	f.Size = size
	return f
}

func many(n int) (files []workspace.File) {
	for i := range n {
		files = append(files, file(fmt.Sprintf("f%05d", i)))
	}
	return files
}

func files(f ...workspace.File) []workspace.File { return f }

// paths are refused in a manifest and in a patch, each for its reason.
var paths = []struct{ path, want string }{
	{"", "a path has 1 to"},
	{".", "some systems drop"},
	{"..", "some systems drop"},
	{"../a", "some systems drop"},
	{"a/../b", "some systems drop"},
	{"a/./b", "some systems drop"},
	{"/etc/passwd", "absolute"},
	{"a//b", "empty"},
	{"a/", "empty"},
	{`a\b`, `'\\'`},
	{`..\a`, `'\\'`},
	{"C:/a", "':'"},
	{"a:stream", "':'"},
	{"a\x00b", "cannot be seen"},
	{"a\nb", "cannot be seen"},
	{"a\x1b[2Jb", "cannot be seen"},
	{"a\u202eb", "cannot be seen"},
	{"a\ufeff", "cannot be seen"},
	{"aux", "device"},
	{"dir/NUL.txt", "device"},
	{"com¹", "device"},
	{"a.", "some systems drop"},
	{"a ", "some systems drop"},
	{".git", "git's own"},
	{".GIT/config", "git's own"},
	{".git/hooks/post-checkout", "git's own"},
	{"sub/.Git/hooks/x", "git's own"},
	{"GIT~1/config", "git's own"},
	{"git~2", "git's own"},
	{".g\u200cit/config", "cannot be seen"},
	{".gi\u206ft", "cannot be seen"},
	{".git.", "some systems drop"},
	{".git ", "some systems drop"},
	{".git::$INDEX_ALLOCATION", "':'"},
	{".ｇｉｔ", "git's own"},
	{".Symbio-Patch-X/old/a", "left of a patch"},
	{strings.Repeat("a", 256), "more than 255"},
	{strings.Repeat("a/", 512) + "a", "a path has 1 to"},
	{strings.Repeat("a/", 64) + "a", "a path has 1 to"},
}

func TestHostilePathsAreRefused(t *testing.T) {
	base := workspace.Manifest{Files: files(file("ok"))}
	for _, c := range paths {
		m := workspace.Manifest{Files: files(file(c.path))}
		_, err := workspace.DecodeManifest(m.Encode(), limits)
		refused(t, err, c.want, fmt.Sprintf("manifest with %q", c.path))
		p := workspace.Patch{Base: base.Hash(), Changes: files(file(c.path))}
		_, err = workspace.DecodePatch(p.Encode(), base, limits)
		if c.path == "" {
			c.want = "out of order" // it is not behind the beginning
		}
		refused(t, err, c.want, fmt.Sprintf("patch with %q", c.path))
		// What is not checked is not made either.
		if err := workspace.Make(t.Context(), m, openStore(t), t.TempDir()); !errors.Is(err, workspace.ErrRefused) {
			t.Errorf("Make with %q: %v", c.path, err)
		}
	}
}

// refused fails the test unless err is a refusal with that reason, fit to be shown.
func refused(t testing.TB, err error, want, what string) {
	t.Helper()
	switch {
	case !errors.Is(err, workspace.ErrRefused) && !errors.Is(err, workspace.ErrTooLarge):
		t.Errorf("%s: got %v, want a refusal", what, err)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%s: got %v, want %q", what, err, want)
	case strings.ContainsAny(err.Error(), "\x00\n\x1b\u202e") || len(err.Error()) > 600:
		t.Errorf("%s: the error is not fit to be shown: %q", what, err)
	}
}

func TestHostileManifestsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files []workspace.File
		want  string
	}{
		"invalid UTF-8":               {files(file("a\xff")), "of another version"},
		"out of order":                {files(file("b"), file("a")), "out of order"},
		"twice":                       {files(file("a"), file("a")), "out of order"},
		"case":                        {files(file("README"), file("Readme")), "the same as"},
		"case of directories":         {files(file("A/x"), file("a/y")), "the same as"},
		"unicode form":                {files(file("cafe\u0301"), file("caf\u00e9")), "the same as"},
		"sharp s":                     {files(file("STRASSE"), file("stra\u00dfe")), "the same as"},
		"file and directory":          {files(file("a"), file("a/b")), "a file and the other a directory"},
		"file and directory in case":  {files(file("A"), file("a/b")), "a file and the other a directory"},
		"below a link":                {files(file("d/x"), link("l", "d"), file("l/y")), "a file and the other a directory"},
		"link absolute":               {files(link("l", "/etc/passwd")), "not a plain relative path"},
		"link out":                    {files(link("l", "../x")), "outside"},
		"link out from below":         {files(link("a/l", "../../x"), file("a/x")), "outside"},
		"link empty":                  {files(link("l", "")), "not a plain relative path"},
		"link to itself":              {files(link("l", "l")), "its target is a link"},
		"link to link":                {files(link("k", "x"), link("l", "k"), file("x")), "its target is a link"},
		"link through link":           {files(file("d/x"), link("k", "d"), link("m", "k/x")), "does not travel"},
		"link with dots inside":       {files(file("d/x"), link("l", "d/../d/x"), link("m", "d")), "not a plain relative path"},
		"link to top":                 {files(link("a/l", ".."), file("a/x")), "outside"},
		"link to directory around it": {files(link("a/b/l", ".."), file("a/x")), "a directory that it is in"},
		"link to own directory":       {files(link("a/l", "."), file("a/x")), "a directory that it is in"},
		"link to git":                 {files(link("l", ".git")), "does not travel"},
		"link with backslash":         {files(link("l", `..\..\x`)), "does not travel"},
		"link with size":              {files(workspace.File{Path: "l", Kind: workspace.Link, Link: "a", Size: 1}), "cannot have"},
		"link with hash":              {files(file("a"), workspace.File{Path: "l", Kind: workspace.Link, Link: "a", Hash: content.Sum(nil)}), "cannot have"},
		"file with target":            {files(workspace.File{Path: "a", Kind: workspace.Regular, Link: "b"}), "cannot have"},
		"no kind":                     {files(workspace.File{Path: "a"}), "cannot travel"},
		"kind of a device":            {files(workspace.File{Path: "a", Kind: "device"}), "cannot travel"},
		"kind of set-uid":             {files(workspace.File{Path: "a", Kind: "setuid"}), "cannot travel"},
		"kind of a FIFO":              {files(workspace.File{Path: "a", Kind: "fifo"}), "cannot travel"},
		"deleted":                     {files(deleted("a")), "cannot travel"},
		"negative size":               {files(sized("a", -1)), "cannot have"},
		"10 GB":                       {files(sized("a", 10<<30)), "more than 500"},
		"huge sum":                    {files(sized("a", 400), sized("b", 400), sized("c", 400)), "more than 1000 bytes"},
		"sum that overflows":          {files(sized("a", math.MaxInt64), sized("b", math.MaxInt64)), "more than"},
		"ten thousand files":          {many(10_000), "more than 10 files"},
		"eleven files":                {many(11), "more than 10 files"},
	} {
		_, err := workspace.DecodeManifest(workspace.Manifest{Files: c.files}.Encode(), limits)
		refused(t, err, c.want, name)
	}
	for _, commit := range []string{"HEAD", "--upload-pack=x", strings.Repeat("a", 41), strings.Repeat("a", 1<<20), "\x1b[2J"} {
		_, err := workspace.DecodeManifest(workspace.Manifest{Commit: commit}.Encode(), limits)
		refused(t, err, "no commit", "commit")
	}
	if err := (workspace.Manifest{Files: many(11)}).Check(limits); !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("Check takes eleven files: %v", err)
	}
}

func TestHostileEncodingsAreRefused(t *testing.T) {
	good := string(workspace.Manifest{Files: files(file("a"))}.Encode())
	if _, err := workspace.DecodeManifest([]byte(good), limits); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", "form is wrong: EOF"},
		"no JSON":         {"PK\x03\x04", "invalid character 'P'"},
		"cut off":         {good[:len(good)-5], "unexpected EOF"},
		"more behind":     {good + "]", "of another version"},
		"blank behind":    {good + "\n", "of another version"},
		"other field":     {strings.Replace(good, `"p":`, `"mode":2541,"p":`, 1), "of another version"},
		"field twice":     {strings.Replace(good, `"p":"a"`, `"p":"b","p":"a"`, 1), "of another version"},
		"field in case":   {strings.Replace(good, `"p":`, `"P":`, 1), "of another version"},
		"blank":           {strings.Replace(good, `"p":`, `"p": `, 1), "of another version"},
		"short hash":      {strings.Replace(good, `"h":"`, `"h":"00`, 1), "is not a SHA-256"},
		"long hash":       {strings.Replace(good, content.Sum([]byte("a")).String(), strings.Repeat("0", 66), 1), "is not a SHA-256"},
		"hash in case":    {strings.Replace(good, content.Sum([]byte("a")).String(), strings.ToUpper(content.Sum([]byte("a")).String()), 1), "is not a SHA-256"},
		"size as float":   {strings.Replace(good, `"s":1`, `"s":1e0`, 1), "number 1e0"},
		"size over int64": {strings.Replace(good, `"s":1`, `"s":9223372036854775808`, 1), "number 9223372036854775808"},
		"no manifest":     {strings.Replace(good, `"commit"`, `"base"`, 1), "of another version"},
		"deep":            {good + strings.Repeat("[", 1<<20), "max depth"},
		"bomb":            {good + strings.Repeat("{}\n", 1<<20), "more than 10 files"},
		"invalid UTF-8":   {strings.Replace(good, `"p":"a"`, "\"p\":\"a\xff\"", 1), "of another version"},
		"escaped":         {strings.Replace(good, `"p":"a"`, `"p":"\u0061"`, 1), "of another version"},
	} {
		_, err := workspace.DecodeManifest([]byte(c.text), limits)
		refused(t, err, c.want, name)
	}
}

func TestHostilePatchesAreRefused(t *testing.T) {
	base := workspace.Manifest{Files: files(file("README"), file("dir/a"), link("link", "dir"), file("old"))}
	for name, c := range map[string]struct {
		changes []workspace.File
		want    string
	}{
		"other base":                 {nil, "not the files that were sent"},
		"invalid UTF-8":              {files(file("a\xff")), "of another version"},
		"out of order":               {files(file("b"), file("a")), "out of order"},
		"twice":                      {files(file("a"), deleted("a")), "out of order"},
		"deletes what was not sent":  {files(deleted("private")), "not sent"},
		"deletes a directory":        {files(deleted("dir")), "not sent"},
		"deletion with content":      {files(workspace.File{Path: "old", Kind: workspace.Deleted, Size: 1}), "not sent"},
		"below a link":               {files(file("link/hooks")), "a file and the other a directory"},
		"below a file":               {files(file("old/x")), "a file and the other a directory"},
		"over a directory":           {files(file("dir")), "a file and the other a directory"},
		"case of the base":           {files(file("readme")), "the same as"},
		"case of its directory":      {files(file("DIR/b")), "the same as"},
		"link and below it":          {files(link("l", "dir"), file("l/x")), "a file and the other a directory"},
		"link for a directory":       {files(link("dir", "/etc"), deleted("dir/a")), "its target"},
		"link out":                   {files(link("l", "../../.ssh/authorized_keys")), "outside"},
		"dangling link":              {files(deleted("dir/a")), "does not travel"},
		"hook":                       {files(workspace.File{Path: ".git/hooks/pre-commit", Kind: workspace.Executable}), "git's own"},
		"hook in a directory":        {files(workspace.File{Path: "dir/.git/hooks/pre-commit", Kind: workspace.Executable}), "git's own"},
		"set-uid":                    {files(workspace.File{Path: "sudo", Kind: "setuid"}), "cannot travel"},
		"no kind":                    {files(workspace.File{Path: "x"}), "cannot travel"},
		"environment":                {files(file("dir/.env")), "looks like a secret"},
		"key":                        {files(file(".ssh/id_ed25519")), "looks like a secret"},
		"token":                      {files(file(".aws/credentials")), "looks like a secret"},
		"negative size":              {files(sized("old", -5)), "cannot have"},
		"10 GB":                      {files(sized("old", 10<<30)), "more than 500"},
		"sum with the base":          {files(sized("x", 499), sized("y", 499)), "more than 1000 bytes"},
		"too many with those before": {many(7), "11 files"},
		"ten thousand files":         {many(10_000), "more than 14 files"},
	} {
		p := workspace.Patch{Base: base.Hash(), Changes: c.changes}
		if c.changes == nil {
			p.Base = content.Sum(nil)
		}
		_, err := workspace.DecodePatch(p.Encode(), base, limits)
		refused(t, err, c.want, name)
	}
	p := workspace.Patch{Base: base.Hash(), Changes: files(deleted("README"), file("readme"))}
	if _, err := workspace.DecodePatch(p.Encode(), base, limits); err != nil {
		t.Errorf("a file whose name changes in case: %v", err)
	}
}

func TestWrongContentIsNotMade(t *testing.T) {
	store, dir := openStore(t), t.TempDir()
	m := workspace.Manifest{Files: files(file("a"))}
	if err := workspace.Make(t.Context(), m, store, dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the content: %v", err)
	}
	if _, _, err := store.Put(strings.NewReader("a"), 1); err != nil {
		t.Fatal(err)
	}
	m.Files[0].Hash = content.Sum([]byte("a"))
	m.Files[0].Size = 0
	if err := workspace.Make(t.Context(), m, store, t.TempDir()); err == nil {
		t.Error("a size that is too short is taken")
	}
}

func TestNothingIsWrittenOverFiles(t *testing.T) {
	store, dir := openStore(t), t.TempDir()
	h, _, _ := store.Put(strings.NewReader("new"), 3)
	tree{"a": "old"}.write(t, dir)
	m := workspace.Manifest{Files: files(workspace.File{Path: "a", Kind: workspace.Regular, Size: 3, Hash: h})}
	if err := workspace.Make(t.Context(), m, store, dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	outside := filepath.Join(t.TempDir(), "x")
	tree{"d": "->" + filepath.Dir(outside)}.write(t, dir)
	m.Files[0].Path = "d/x"
	err := workspace.Make(t.Context(), m, store, dir)
	if _, missing := os.Stat(outside); err == nil || missing == nil {
		t.Errorf("it was written through a link: %v", err)
	}
	check(t, read(t, dir), tree{"a": "old", "d": "->" + filepath.Dir(outside)})
}

func FuzzManifest(f *testing.F) {
	f.Add(workspace.Manifest{Commit: strings.Repeat("a", 40), Files: files(file("a"), file("d/b"), link("l", "d"))}.Encode())
	f.Add([]byte("{\"commit\":\"\"}\n{\"p\":\"..\",\"k\":\"file\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := workspace.DecodeManifest(data, limits)
		if err != nil {
			return
		}
		if string(m.Encode()) != string(data) || m.Hash() != content.Sum(data) {
			t.Error("it has another encoding")
		}
		mustBeInside(t, m.Files)
	})
}

func FuzzPatch(f *testing.F) {
	base := workspace.Manifest{Files: files(file("README"), file("dir/a"), link("link", "dir"))}
	f.Add(workspace.Patch{Base: base.Hash(), Changes: files(deleted("README"), file("dir/b"), link("new", "dir/a"))}.Encode())
	f.Add(workspace.Patch{Base: base.Hash(), Changes: files(file("link/x"))}.Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := workspace.DecodePatch(data, base, limits)
		if err == nil {
			mustBeInside(t, p.Changes)
		}
	})
}

// mustBeInside checks what the rest of the package relies on in another way than the package does.
func mustBeInside(t *testing.T, files []workspace.File) {
	t.Helper()
	for _, f := range files {
		if !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) != f.Path || strings.Contains(strings.ToLower("/"+f.Path+"/"), "/.git/") {
			t.Errorf("%q was let pass", f.Path)
		}
		if f.Kind == workspace.Link && !filepath.IsLocal(filepath.Join(filepath.Dir(f.Path), f.Link)) {
			t.Errorf("the link %q to %q was let pass", f.Path, f.Link)
		}
	}
}
