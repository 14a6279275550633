package share_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/internal/skills/share"
	"symbio/skills"
)

const front = "---\nname: my-skill\ndescription: A skill of ours\n---\nDo it.\n"

// tree makes the skill my-skill in a directory of its own; a file whose name ends in ! can be executed.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "my-skill")
	if files["SKILL.md"] == "" {
		files["SKILL.md"] = front
	}
	for name, text := range files {
		name, exec := strings.CutSuffix(name, "!")
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o600)
		if exec {
			mode = 0o700
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t *testing.T, dir string) *share.Pack {
	t.Helper()
	p, err := share.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serving is a node that shares the skills in the directories.
func serving(cfg share.Config, dirs ...string) (*share.Server, share.Call) {
	cfg.Catalog = func(ctx context.Context) (skills.Catalog, error) {
		var roots []skills.Root
		for _, d := range dirs {
			roots = append(roots, skills.Root{Path: filepath.Dir(d), Scope: skills.ScopeUser})
		}
		return skills.Scan(ctx, skills.Config{Roots: roots})
	}
	s := share.NewServer(cfg)
	return s, func(ctx context.Context, capability string, input []byte) ([]byte, error) {
		var out any
		var err error
		switch capability {
		case share.ListCapability:
			var r share.ListRequest
			if err = json.Unmarshal(input, &r); err == nil {
				out, err = s.List(ctx, r)
			}
		case share.FetchCapability:
			var r share.FetchRequest
			if err = json.Unmarshal(input, &r); err == nil {
				out, err = s.Fetch(ctx, r)
			}
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

func TestSkillArrivesAsItWasShared(t *testing.T) {
	files := map[string]string{
		"scripts/x.sh!": "#!/bin/sh\necho hi\n", "references/über.md": strings.Repeat("x", 900_000), "references/more.md": strings.Repeat("y", 900_001), "assets/empty": "",
		".secret": "not to be shared", ".git/config": "nor this",
	}
	dir := tree(t, files)
	_, call := serving(share.Config{All: true}, dir)
	p, err := share.Fetch(t.Context(), call, "my-skill", "")
	if err != nil {
		t.Fatal(err)
	}
	local := read(t, dir)
	if p.Hash() != local.Hash() || p.Description() != "A skill of ours" {
		t.Errorf("got %s, %q; want %s", p.Hash(), p.Description(), local.Hash())
	}
	var paths []string
	for _, f := range p.Files {
		paths = append(paths, fmt.Sprint(f.Path, f.Exec))
	}
	if d := cmp.Diff([]string{"SKILL.mdfalse", "assets/emptyfalse", "references/more.mdfalse", "references/über.mdfalse",
		"scripts/x.shtrue"}, paths); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}

	store := share.NewStore(filepath.Join(t.TempDir(), "peer"))
	if list, err := store.List(); err != nil || len(list) != 0 {
		t.Errorf("an empty store lists %v, %v", list, err)
	}
	o, err := store.Put(p, "0123", "kitchen")
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.Put(p, "4567", "cellar")
	if d := cmp.Diff(o, again); err != nil || d != "" {
		t.Errorf("stored twice: %v\n%s", err, d)
	}
	at := store.Dir(o.Hash, o.Name)
	for name, text := range map[string]string{"scripts/x.sh": files["scripts/x.sh!"], "references/über.md": files["references/über.md"],
		"SKILL.md": front} {
		if got, err := os.ReadFile(filepath.Join(at, name)); err != nil || string(got) != text {
			t.Errorf("%s: %v, %d bytes, want %d", name, err, len(got), len(text))
		}
		info, err := os.Stat(filepath.Join(at, name))
		if err != nil || info.Mode().Perm()&0o222 != 0 || info.Mode().Perm()&0o077 != 0 ||
			(info.Mode()&0o100 != 0) != strings.HasPrefix(name, "scripts") {
			t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
		}
	}
	if err := store.Verify(o.Hash); err != nil {
		t.Errorf("what was stored does not verify: %v", err)
	}
	if list, err := store.List(); err != nil || len(list) != 1 || list[0] != o || o.NodeName != "kitchen" {
		t.Errorf("the store lists %+v, %v", list, err)
	}
	if err := os.Chmod(filepath.Join(at, "SKILL.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "SKILL.md"), []byte(strings.Replace(front, "Do", "Undo", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Verify(o.Hash); !errors.Is(err, share.ErrHash) {
		t.Errorf("after a change: %v, want ErrHash", err)
	}
	if _, err := store.Put(p, "0123", "kitchen"); err != nil || store.Verify(o.Hash) != nil {
		t.Errorf("fetched again over what was changed: %v, %v", err, store.Verify(o.Hash))
	}
	if err := store.Remove(o.Hash); err != nil {
		t.Fatal(err)
	}
	for _, hash := range []string{o.Hash, "..", "", strings.Repeat("a", 64)} {
		if err := store.Remove(hash); !errors.Is(err, share.ErrNotStored) {
			t.Errorf("remove %q: %v, want ErrNotStored", hash, err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(filepath.Dir(at))); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// hostile answers with a manifest and a content, whatever they are.
func hostile(manifest string, content []byte, piece int) share.Call {
	return func(_ context.Context, _ string, input []byte) ([]byte, error) {
		var r share.FetchRequest
		if err := json.Unmarshal(input, &r); err != nil {
			return nil, err
		}
		if r.Hash == "" {
			return json.Marshal(share.FetchReply{Manifest: manifest})
		}
		from := min(r.Offset, int64(len(content)))
		to := min(from+int64(piece), int64(len(content)))
		return json.Marshal(share.FetchReply{Data: base64.StdEncoding.EncodeToString(content[from:to])})
	}
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// manifest is one with SKILL.md and the lines.
func manifest(lines ...string) string {
	lines = append(lines, fmt.Sprintf("- %d %s SKILL.md", len(front), hash(front)))
	slices.SortFunc(lines, func(a, b string) int {
		path := func(s string) string { return strings.SplitN(s+"    ", " ", 4)[3] }
		return strings.Compare(path(a), path(b))
	})
	return "symbio-skill 1 my-skill\n" + strings.Join(lines, "\n") + "\n"
}

func TestHostileNodeIsRefused(t *testing.T) {
	file := func(path string) string { return "- 1 " + hash("x") + " " + path }
	long := strings.Repeat("a/", 100) + "b"
	for name, c := range map[string]struct {
		manifest string
		want     error
	}{
		"up":                {manifest(file("../x")), share.ErrPath},
		"up, inside":        {manifest(file("a/../../x")), share.ErrPath},
		"absolute":          {manifest(file("/etc/passwd")), share.ErrPath},
		"a drive":           {manifest(file("C:x")), share.ErrPath},
		"a UNC path":        {manifest(file(`\\host\x`)), share.ErrPath},
		"backslashes":       {manifest(file(`..\x`)), share.ErrPath},
		"a stream":          {manifest(file("SKILL.txt:evil")), share.ErrPath},
		"a dot":             {manifest(file("a/./b")), share.ErrPath},
		"an empty name":     {manifest(file("a//b")), share.ErrPath},
		"a directory":       {manifest(file("a/")), share.ErrPath},
		"hidden":            {manifest(file(".bashrc")), share.ErrPath},
		"hidden inside":     {manifest(file("a/.git/config")), share.ErrPath},
		"NUL":               {manifest(file("a\x00b")), share.ErrPath},
		"a control":         {manifest(file("a\x1bb")), share.ErrPath},
		"a direction":       {manifest(file("a\u202eb")), share.ErrPath},
		"no UTF-8":          {manifest(file("a\xffb")), share.ErrPath},
		"a trailing dot":    {manifest(file("a.")), share.ErrPath},
		"a trailing blank":  {manifest(file("a /b")), share.ErrPath},
		"CON":               {manifest(file("con.txt")), share.ErrPath},
		"NUL, the device":   {manifest(file("a/NUL")), share.ErrPath},
		"COM¹":              {manifest(file("com¹.md")), share.ErrPath},
		"too deep":          {manifest(file("a/b/c/d/e/f/g/h/i")), share.ErrPath},
		"too long":          {manifest(file(long)), share.ErrPath},
		"another case":      {manifest(file("skill.md")), share.ErrPath},
		"a case inside":     {manifest(file("A/x"), file("a/y")), share.ErrPath},
		"a sharp s":         {manifest(file("straße"), file("STRASSE")), share.ErrPath},
		"composed":          {manifest(file("caf\u00e9"), file("cafe\u0301")), share.ErrPath},
		"file, directory":   {manifest(file("a"), file("a/b")), share.ErrPath},
		"file, directory 2": {manifest(file("a"), file("a!"), file("a/b")), share.ErrPath},
		"twice":             {manifest(file("a"), file("a")), share.ErrManifest},
		"out of order":      {"symbio-skill 1 my-skill\n" + file("b") + "\n" + file("a") + "\n", share.ErrManifest},
		"no SKILL.md":       {"symbio-skill 1 my-skill\n" + file("a") + "\n", share.ErrManifest},
		"another name":      {strings.Replace(manifest(), "my-skill", "other", 1), share.ErrManifest},
		"a name that leads": {strings.Replace(manifest(), "my-skill", "../x", 1), share.ErrManifest},
		"a device's name":   {strings.Replace(manifest(), "my-skill", "con", 1), share.ErrManifest},
		"a link":            {manifest("l 1 " + hash("x") + " a"), share.ErrManifest},
		"a device":          {manifest("b 1 " + hash("x") + " a"), share.ErrManifest},
		"a size of sign":    {manifest("- +1 " + hash("x") + " a"), share.ErrManifest},
		"a size below zero": {manifest("- -1 " + hash("x") + " a"), share.ErrManifest},
		"a size of words":   {manifest("- one " + hash("x") + " a"), share.ErrManifest},
		"a short hash":      {manifest("- 1 abc a"), share.ErrManifest},
		"a hash in capital": {manifest("- 1 " + strings.ToUpper(hash("x")) + " a"), share.ErrManifest},
		"a large file":      {manifest("- 1048577 " + hash("x") + " a"), share.ErrTooLarge},
		"a huge file":       {manifest("- 9223372036854775807 " + hash("x") + " a"), share.ErrTooLarge},
		"a large skill": {manifest(func() (all []string) {
			for i := range 9 {
				all = append(all, fmt.Sprintf("- 1000000 %s f%d", hash("x"), i))
			}
			return all
		}()...), share.ErrTooLarge},
		"many files": {manifest(func() (all []string) {
			for i := range 200 {
				all = append(all, file(fmt.Sprintf("f%03d", i)))
			}
			return all
		}()...), share.ErrTooLarge},
		"a large manifest":    {manifest() + strings.Repeat("x", 65<<10), share.ErrTooLarge},
		"no manifest":         {"", share.ErrManifest},
		"no end":              {strings.TrimSuffix(manifest(), "\n"), share.ErrManifest},
		"an empty line":       {manifest() + "\n", share.ErrManifest},
		"line breaks of DOS":  {strings.ReplaceAll(manifest(), "\n", "\r\n"), share.ErrManifest},
		"another version":     {strings.Replace(manifest(), "skill 1", "skill 2", 1), share.ErrManifest},
		"a missing file":      {manifest(file("zzz")), share.ErrSlow},
		"a hash of something": {strings.Replace(manifest(), hash(front), hash("x"), 1), share.ErrHash},
	} {
		p, err := share.Fetch(t.Context(), hostile(c.manifest, []byte(front), 1<<20), "my-skill", "")
		if !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := share.Fetch(t.Context(), hostile(manifest(), []byte(front), 1<<20), "my-skill", ""); err != nil {
		t.Errorf("an honest one: %v", err)
	}
	if _, err := share.Fetch(t.Context(), hostile(manifest(), []byte(front), 1<<20), "my-skill", hash("")); !errors.Is(err, share.ErrHash) {
		t.Errorf("another hash than was wanted: %v, want ErrHash", err)
	}
	big := strings.Repeat("x", 100_000)
	withBig := manifest(fmt.Sprintf("- %d %s a", len(big), hash(big)))
	if _, err := share.Fetch(t.Context(), hostile(withBig, []byte(front+big), 100), "my-skill", ""); !errors.Is(err, share.ErrSlow) {
		t.Errorf("in crumbs: %v, want ErrSlow", err)
	}
	greedy := func(_ context.Context, _ string, input []byte) ([]byte, error) {
		if bytes.Contains(input, []byte(`"hash"`)) {
			return json.Marshal(share.FetchReply{Data: base64.StdEncoding.EncodeToString([]byte(front + "more"))})
		}
		return json.Marshal(share.FetchReply{Manifest: manifest()})
	}
	if _, err := share.Fetch(t.Context(), greedy, "my-skill", ""); !errors.Is(err, share.ErrHash) {
		t.Errorf("more than announced: %v, want ErrHash", err)
	}
	for name, text := range map[string]string{"no front matter": "hello", "another name": strings.Replace(front, "my-skill", "other", 1),
		"no description": "---\nname: my-skill\n---\n"} {
		m := fmt.Sprintf("symbio-skill 1 my-skill\n- %d %s SKILL.md\n", len(text), hash(text))
		if _, err := share.Fetch(t.Context(), hostile(m, []byte(text), 1<<20), "my-skill", ""); !errors.Is(err, share.ErrSkill) {
			t.Errorf("%s: %v, want ErrSkill", name, err)
		}
	}
	if _, err := share.Fetch(t.Context(), func(context.Context, string, []byte) ([]byte, error) { return []byte("}"), nil }, "my-skill",
		""); !errors.Is(err, share.ErrManifest) {
		t.Errorf("no JSON: %v, want ErrManifest", err)
	}
}

func TestNodeThatNeverAnswersIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := share.Fetch(t.Context(), func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "my-skill", "")
		if !errors.Is(err, share.ErrSlow) || time.Since(begun) > 3*time.Minute {
			t.Errorf("after %v: %v, want ErrSlow", time.Since(begun), err)
		}
		page := 0
		_, err = share.List(t.Context(), func(context.Context, string, []byte) ([]byte, error) {
			page++
			return json.Marshal(share.ListReply{Skills: []share.SkillSummary{{Name: fmt.Sprintf("s%09d", page)}}, More: true})
		})
		if !errors.Is(err, share.ErrManifest) {
			t.Errorf("a list without end: %v, want ErrManifest", err)
		}
	})
}

func TestUnsendableResourcesAreNotRead(t *testing.T) {
	link := tree(t, map[string]string{})
	if err := os.Symlink("/etc/passwd", filepath.Join(link, "a")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	fifo := tree(t, map[string]string{})
	pipe(t, filepath.Join(fifo, "a"))
	many := map[string]string{}
	for i := range 200 {
		many[fmt.Sprint("f", i)] = ""
	}
	wide := map[string]string{}
	for i := range 9 {
		wide[fmt.Sprint("f", i)] = strings.Repeat("x", 1_000_000)
	}
	for name, c := range map[string]struct {
		dir  string
		want error
	}{
		"a link":         {link, share.ErrKind},
		"a pipe":         {fifo, share.ErrKind},
		"many files":     {tree(t, many), share.ErrTooLarge},
		"a large file":   {tree(t, map[string]string{"a": strings.Repeat("x", 1<<20+1)}), share.ErrTooLarge},
		"a large skill":  {tree(t, wide), share.ErrTooLarge},
		"an odd name":    {tree(t, map[string]string{"a:b": ""}), share.ErrPath},
		"a broken skill": {tree(t, map[string]string{"SKILL.md": "---\nname: x\n---\n"}), share.ErrSkill},
	} {
		if p, err := share.Read(c.dir); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, %v; want %v", name, p, err, c.want)
		}
	}
}

func TestNodeSharesWhatItWasToldTo(t *testing.T) {
	dir := tree(t, map[string]string{"a": "x"})
	_, none := serving(share.Config{}, dir)
	if list, err := share.List(t.Context(), none); err != nil || len(list) != 0 {
		t.Errorf("told nothing: %v, %v", list, err)
	}
	if _, err := share.Fetch(t.Context(), none, "my-skill", ""); !errors.Is(err, share.ErrNotShared) {
		t.Errorf("told nothing: %v, want ErrNotShared", err)
	}
	_, other := serving(share.Config{Names: []string{"other"}}, dir)
	if _, err := share.Fetch(t.Context(), other, "my-skill", ""); !errors.Is(err, share.ErrNotShared) {
		t.Errorf("told another: %v, want ErrNotShared", err)
	}
	s, one := serving(share.Config{Names: []string{"my-skill"}, MaxMessage: 4096}, dir)
	list, err := share.List(t.Context(), one)
	if d := cmp.Diff([]share.SkillSummary{{Name: "my-skill", Description: "A skill of ours"}}, list); err != nil || d != "" {
		t.Errorf("list: %v\n%s", err, d)
	}
	p, err := share.Fetch(t.Context(), one, "my-skill", "")
	if err != nil {
		t.Fatal(err)
	}
	// What was begun is finished, after a change too, as long as it is remembered.
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Fetch(t.Context(), share.FetchRequest{Name: "my-skill", Hash: p.Hash(), Max: 3}); err != nil ||
		r.Data != base64.StdEncoding.EncodeToString([]byte("---")) {
		t.Errorf("a piece: %+v, %v", r, err)
	}
	for _, r := range []share.FetchRequest{{Name: "my-skill", Hash: hash("")}, {Name: "my-skill", Hash: p.Hash(), Offset: -1},
		{Name: "my-skill", Hash: p.Hash(), Offset: 1 << 40}, {Name: "my-skill", Hash: p.Hash(), Max: -1}, {Name: "../my-skill"}} {
		if _, err := s.Fetch(t.Context(), r); !errors.Is(err, share.ErrNotShared) {
			t.Errorf("%+v: %v, want ErrNotShared", r, err)
		}
	}
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add([]byte(manifest()))
	f.Add([]byte(manifest("x 3 " + hash("x") + " scripts/x.sh")))
	f.Add([]byte(manifest("- 1 " + hash("x") + " ../x")))
	f.Add([]byte("symbio-skill 1 a\n- 0 " + hash("") + " SKILL.md\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := share.DecodeManifest(data)
		if err != nil {
			if !errors.Is(err, share.ErrManifest) && !errors.Is(err, share.ErrPath) && !errors.Is(err, share.ErrTooLarge) {
				t.Errorf("%q: %v has no type", data, err)
			}
			return
		}
		if !bytes.Equal(m.Encode(), data) || m.Hash() != hash(string(data)) {
			t.Errorf("%q is another manifest when it is written again", data)
		}
		seen := map[string]bool{}
		for _, file := range m.Files {
			if !filepath.IsLocal(file.Path) || strings.ContainsAny(file.Path, "\\:\x00") || seen[strings.ToLower(file.Path)] {
				t.Errorf("%q holds the path %q", data, file.Path)
			}
			seen[strings.ToLower(file.Path)] = true
		}
		if m.Bytes() > share.MaxSkill || len(m.Files) > share.MaxFiles {
			t.Errorf("%q is too large", data)
		}
	})
}

// Other nodes fetch at the same time; the race detector sees what is used without its lock.
func TestSkillIsFetchedByManyAtOnce(t *testing.T) {
	dir := tree(t, map[string]string{"a.md": "x"})
	want := read(t, dir).Hash()
	for range 10 {
		_, call := serving(share.Config{All: true}, dir)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if p, err := share.Fetch(t.Context(), call, "my-skill", ""); err != nil || p.Hash() != want {
					t.Errorf("got %v, %v", p, err)
				}
			})
		}
		all.Wait()
	}
}
