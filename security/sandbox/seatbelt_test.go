package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// profileOf returns the rules of a policy in the order of the profile, without the base, with the paths in the place of
// their parameters, and without the rules about protected names.
func profileOf(t *testing.T, argv []string) string {
	t.Helper()
	if len(argv) < 3 || argv[0] != "/usr/bin/sandbox-exec" || argv[1] != "-p" {
		t.Fatalf("it starts %q", argv)
	}
	text, ok := strings.CutPrefix(argv[2], seatbeltBase)
	if !ok {
		t.Fatalf("the profile begins with %q", argv[2])
	}
	for i := 3; i+1 < len(argv) && argv[i] == "-D"; i += 2 {
		name, path, _ := strings.Cut(argv[i+1], "=")
		text = strings.Replace(text, `(param "`+name+`")`, path, 1)
	}
	return regexp.MustCompile(`(?m)^\(deny file-write\* \(regex .*\n`).ReplaceAllString(text, "")
}

func TestSeatbeltProfileSaysWhatPolicyAllows(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "home", "key")
	if err := errors.Join(os.Mkdir(filepath.Dir(key), 0o700), os.WriteFile(key, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	b := &Box{cfg: Config{Hide: []string{key}}, here: machine{level: Seatbelt}}
	for _, c := range []struct {
		name, temp string
		policy     Policy
		want       string
	}{
		{"restrictive", "", Policy{Files: Files{Read: []string{"/"}, Show: []string{key}}}, `(allow file-read* (subpath /))
` + othersTemp + `(allow process-exec (literal /bin/ls))
`},
		{"standard", "/t", Policy{Files: Files{Read: []string{"/"}, Write: []string{"/w"}, Temp: true, Show: []string{key}}, Network: NetworkLocal, Subprocess: true}, `(allow file-read* (subpath /))
` + othersTemp + `(allow file-read* file-write* (subpath /w))
(allow file-read* file-write* (subpath /t))
(allow process-exec process-fork)
`},
		{"narrow, with sockets", "", Policy{Files: Files{Read: []string{"/r"}, Sockets: []string{"/s"}, Show: []string{key}}, Network: NetworkFull}, `(allow file-read* (subpath /r))
` + wholeNetwork + `(allow network-outbound (literal /s))
(allow process-exec (literal /bin/ls))
`},
		{"hidden and denied", "", Policy{Files: Files{Read: []string{"/r"}, Denied: DeniedFiles{ReadOnly: []string{"/r/a/b"}, Fixed: []string{"/r/c/d"}, Hidden: []string{"/r/e"}}}}, `(allow file-read* (subpath /r))
(deny file-write* (subpath /r/a/b))
(deny file-read* file-write* (subpath /r/e))
(deny file-read* file-write* (subpath ` + key + `))
`},
	} {
		argv, err := b.seatbelt(c.policy, "/bin/ls", []string{"-l", "-p"}, "/", c.temp)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := profileOf(t, argv); got != c.want && !(c.name == "hidden and denied" && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		if end := argv[len(argv)-3:]; !slices.Equal(end, []string{"/bin/ls", "-l", "-p"}) {
			t.Errorf("%s: it runs %q", c.name, end)
		}
		// The directories above what is hidden or denied stay where they are.
		if got := profileOf(t, argv); c.name == "hidden and denied" {
			for _, at := range []string{"/r", "/r/a", "/r/c", dir, filepath.Dir(key)} {
				if !strings.Contains(got, "(deny file-write-unlink (literal "+at+"))") {
					t.Errorf("%s can be moved: %s", at, got)
				}
			}
		}
	}
	if _, err := b.seatbelt(Policy{}, key, nil, "/", ""); !errors.Is(err, ErrNotStarted) {
		t.Errorf("a hidden program: %v", err)
	}
	if _, err := b.seatbelt(Policy{Files: Files{Write: []string{"/h/.Claude/w"}}}, "/bin/ls", nil, "/", ""); !errors.Is(err,
		ErrNotStarted) {
		t.Errorf("a workspace below a protected name: %v", err)
	}
	if argv, err := b.seatbelt(Permissive(), "/bin/ls", nil, "/", "/t"); err != nil || strings.Contains(argv[2], "(regex") {
		t.Errorf("without protection: %v, %v", argv, err)
	}
}

func TestSeatbeltKeepsProtectedNamesInAnyCase(t *testing.T) {
	rules, err := protectedRules([]string{".git/hooks", "a-b_2"}, nil)
	const want = `(deny file-write* (regex #"/[aA]-[bB]_2(/|$)"))`
	if err != nil || !strings.Contains(rules, want) {
		t.Fatalf("got %s, %v; want %s", rules, err, want)
	}
	denied := func(path string) bool {
		for line := range strings.Lines(rules) {
			_, pattern, _ := strings.Cut(line, `#"`)
			pattern, _, _ = strings.Cut(pattern, `"`)
			if regexp.MustCompile(pattern).MatchString(path) {
				return true
			}
		}
		return false
	}
	for path, want := range map[string]bool{
		"/w/.git/hooks": true, "/w/.GIT/Hooks/x": true, "/w/deep/.git/hooks/x": true, "/w/.git": true, "/w/A-B_2": true,
		"/w/.git/index": false, "/w/xgit/hooks": false, "/w/.git/hooks2": false, "/w/a": false,
	} {
		if got := denied(path); got != want {
			t.Errorf("%s: denied %v", path, got)
		}
	}
	for _, name := range []string{`a"))(allow default`, "a\nb", "ä", "a*", `a\`, "a b"} {
		if _, err := protectedRules([]string{name}, nil); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func FuzzSeatbeltPathIsNoRule(f *testing.F) {
	for _, path := range []string{"/w", `/w"))(allow default)("`, "/w\n(allow default)", `/\`, "/P0=x", "relative", "/#|", "/w;x", "00(",
		".git/x", "/ä\xff"} {
		f.Add(path, "name")
		f.Add("/w", path)
	}
	shape := regexp.MustCompile(`\A(\((allow|deny) [a-z*-]+( [a-z*-]+)*( \((subpath|literal) \(param "P[0-9]+"\)\)| \(regex #"/[][A-Za-z0-9._()|$/\\-]*"\))*\)\n)*\z`)
	f.Fuzz(func(t *testing.T, path, name string) {
		b := &Box{cfg: Config{Protect: []string{name}}}
		p := Policy{Files: Files{Read: []string{path}, Write: []string{path}, Sockets: []string{path},
			Denied: DeniedFiles{ReadOnly: []string{path}, Fixed: []string{path}, Hidden: []string{path}}}}
		argv, err := b.seatbelt(p, "/bin/ls", []string{path}, "/", "")
		if err != nil {
			return
		}
		if text := strings.TrimPrefix(argv[2], seatbeltBase); !shape.MatchString(text) {
			t.Errorf("the profile for %q, %q is %s", path, name, text)
		}
		params := argv[3 : len(argv)-2]
		for i := 0; i+1 < len(params); i += 2 {
			if params[i] != "-D" || !regexp.MustCompile(`(?s)\AP[0-9]+=`).MatchString(params[i+1]) {
				t.Errorf("parameter %q", params[i:i+2])
			}
		}
		if len(params)%2 != 0 || argv[len(argv)-2] != "/bin/ls" || argv[len(argv)-1] != path {
			t.Errorf("it ends with %q", argv[3:])
		}
	})
}
