package install

import (
	"strings"
	"testing"
)

func FuzzParseSource(f *testing.F) {
	for _, text := range []string{
		"https://example.com/team/skills.git//writing#v1", "ssh://git@example.com:22/x.git", "ann@host:x/y", "file:///srv/x.git", "./a:b", "../x//y", "C:\\x",
		"ext::sh -c x", "https://example.com/o/r/tree/main/a/SKILL.md", "https://example.com/x?ref=v1", "node:a/b", "host:x", "-u", "a#b#c", "//x", "https://a@b/c", "file:////x",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSource(text)
		if err != nil {
			if s != (Source{}) || strings.ContainsAny(err.Error(), "\x00\x1b\n") {
				t.Errorf("%q: %+v, %q", text, s, err)
			}
			return
		}
		again, err := ParseSource(s.String())
		if err != nil || again != s {
			t.Errorf("%q: %+v, and from %q %+v, %v", text, s, s, again, err)
		}
		// Each part is an argument of git.
		for _, part := range []string{s.Location, s.Ref} {
			if strings.HasPrefix(part, "-") || strings.ContainsAny(part, "\x00\n") {
				t.Errorf("%q: %+v", text, s)
			}
		}
		if strings.Contains("/"+s.Path+"/", "/../") || strings.HasPrefix(s.Path, "/") || strings.Contains(s.Location, "::") && !s.Local() {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func FuzzDecodeLock(f *testing.F) {
	f.Add([]byte("{\n  \"version\": 1,\n  \"skills\": []\n}\n"))
	f.Add([]byte(`{"version":1,"skills":[{"name":"a","source":"ext::x","hash":"","files":[{"path":"../x"}]}]}`))
	f.Add([]byte(lockOfOne))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := decodeLock(data)
		if err != nil {
			return
		}
		again, err := encodeLock(all)
		if err != nil || string(again) != strings.ReplaceAll(string(data), "\r\n", "\n") {
			t.Errorf("%q is read, and written as %q, %v", data, again, err)
		}
		for _, l := range all {
			for _, file := range l.Files {
				if strings.Contains("/"+file.Path+"/", "/../") || strings.HasPrefix(file.Path, "/") {
					t.Errorf("%q", file.Path)
				}
			}
		}
	})
}

const lockOfOne = `{
  "version": 1,
  "skills": [
    {
      "name": "notes",
      "source": "../team.git",
      "path": "notes",
      "ref": "HEAD",
      "commit": "f7a2b14fc2f5ae4695f89cb8eca17c480c14c043",
      "hash": "c83de39be1c0b6a25faa7a1a6e3a5c0bb5e0f9a1d8fc2f30e5ad9a86f5a27a5a",
      "files": [
        {
          "path": "SKILL.md",
          "size": 90,
          "sha256": "caa52f13755c827848b59fc1c83119afada5eb358a72a8daa55a8bad6fae8bce"
        }
      ]
    }
  ]
}
`

// TestDamagedLockFileIsRefused changes a good lock file in one place each time.
func TestDamagedLockFileIsRefused(t *testing.T) {
	good := lockOfOne
	if _, err := decodeLock([]byte(good)); err != nil {
		// The hash of the example is that of its files.
		_, hash, _ := strings.Cut(err.Error(), "its files have the hash ")
		good = strings.Replace(good, "c83de39be1c0b6a25faa7a1a6e3a5c0bb5e0f9a1d8fc2f30e5ad9a86f5a27a5a", hash, 1)
	}
	if _, err := decodeLock([]byte(good)); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeLock([]byte(strings.ReplaceAll(good, "\n", "\r\n"))); err != nil {
		t.Errorf("with line breaks of Windows: %v", err)
	}
	for about, change := range map[string][2]string{
		"an unknown field":       {`"name"`, `"hook": "x", "name"`},
		"a field twice":          {`"size": 90`, `"size": 9, "size": 90`},
		"another version":        {`"version": 1`, `"version": 2`},
		"a path that leaves":     {`"path": "SKILL.md"`, `"path": "../SKILL.md"`},
		"a name that leaves":     {`"name": "notes"`, `"name": "../notes"`},
		"another file":           {"caa5", "0000"},
		"a source that executes": {"../team.git", "ext::sh -c x"},
		"an option":              {"../team.git", "--upload-pack=x"},
		"an option as reference": {"HEAD", "--upload-pack=x"},
		"a commit that is none":  {"f7a2", "main"},
		"data behind its end":    {"]\n}\n", "]\n}\n{}\n"},
		"nothing":                {good, ""},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if _, err := decodeLock([]byte(text)); err == nil || text == good {
			t.Errorf("%s: it is read", about)
		}
	}
}

func TestSourceIsReadAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]Source{
		"https://example.com/team/skills.git":               {Location: "https://example.com/team/skills.git"},
		"https://example.com/team/skills.git//writing#v1.2": {"https://example.com/team/skills.git", "writing", "v1.2"},
		"ssh://git@example.com:2222/x.git#refs/heads/a/b":   {"ssh://git@example.com:2222/x.git", "", "refs/heads/a/b"},
		"git@example.com:team/skills.git//a/b":              {"git@example.com:team/skills.git", "a/b", ""},
		"file:///srv/skills.git":                            {Location: "file:///srv/skills.git"},
		"../skills#main":                                    {"../skills", "", "main"},
		"./a:b":                                             {Location: "./a:b"},
		"skills.zip":                                        {Location: "skills.zip"},
	} {
		if got, err := ParseSource(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, meant := range map[string]string{
		"https://example.com/o/r/tree/main/skills/notes":   "https://example.com/o/r//skills/notes#main",
		"https://example.com/o/r/-/blob/v1/notes/SKILL.md": "https://example.com/o/r//notes#v1",
		"https://example.com/x.git?ref=v1":                 "https://example.com/x.git#v1",
		"git::https://example.com/x.git":                   "https://example.com/x.git",
		"http://example.com/x.git":                         "https://example.com/x.git",
		"https://token@example.com/x.git":                  "https://example.com/x.git",
		"example.com:team/x.git":                           "ssh://",
	} {
		if _, err := ParseSource(text); err == nil || !strings.Contains(err.Error(), "did you mean "+meant) {
			t.Errorf("%s: %v; want %s", text, err, meant)
		}
	}
}
