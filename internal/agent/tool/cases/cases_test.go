package cases_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"symbio/internal/agent/tool/cases"
	"symbio/security/permission"
)

func judge(t *testing.T, text string) []cases.Result {
	t.Helper()
	list, err := cases.Read(strings.NewReader("version: 1\ncases:\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := cases.NewWorld()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	var all []cases.Result
	for _, c := range list {
		r, err := w.Judge(c)
		if err != nil {
			t.Fatalf("case %s: %v", c.ID, err)
		}
		all = append(all, r)
	}
	return all
}

func TestPartsOfCaseCount(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       permission.Action
	}{
		{"allow", "rules: {allow: ['Read(${WORK}/*)']}, tool: Read, args: {file_path: '${WORK}/a'}", permission.Allow},
		{"default", "rules: {}, tool: Read, args: {file_path: a}", permission.Ask},
		{"final deny", "rules: {finalDeny: [Read], overrides: [Read], allow: [Read]}, tool: Read, args: {file_path: a}", permission.Deny},
		{"override", "rules: {deny: [Read], overrides: [Read], allow: [Read]}, tool: Read, args: {file_path: a}", permission.Allow},
		{"an allow that cannot be read", "rules: {allow: ['Read(']}, tool: Read, args: {file_path: a}", permission.Ask},
		{"a deny that cannot be read", "rules: {deny: ['Write('], allow: [Read]}, tool: Read, args: {file_path: a}", permission.Deny},
		{"a link out", "rules: {allow: ['Read(${WORK}/*)']}, tool: Read, args: {file_path: link}, setup: {symlinks: {'${WORK}/link': '${OUTSIDE}/x'}}", permission.Ask},
		{"a link inside", "rules: {allow: ['Read(${WORK}/*)']}, tool: Read, args: {file_path: link}, setup: {files: {a: x}, symlinks: {link: a}}", permission.Allow},
		{"cwd", "rules: {allow: ['Read(${WORK}/sub/*)']}, tool: Read, args: {file_path: a}, setup: {cwd: '${WORK}/sub'}", permission.Allow},
		{"home", "rules: {allow: ['Read(~/x)']}, tool: Read, args: {file_path: '${HOME}/x'}", permission.Allow},
		{"a repeated key", `rules: {allow: ['Read(${WORK}/*)']}, tool: Read, argsRaw: '{"file_path": "a", "FILE_PATH": "/etc/passwd"}'`, permission.Deny},
		{"raw arguments", `rules: {allow: ['Read(${WORK}/*)']}, tool: Read, argsRaw: '{"file_path": "${WORK}/a"}'`, permission.Allow},
		{"memory", "rules: {}, tool: Write, args: {file_path: a}, sessionMemory: [{decision: alwaysAllow, tool: Write, args: {file_path: a}}]", permission.Allow},
		{"memory of another call", "rules: {}, tool: Write, args: {file_path: b}, sessionMemory: [{decision: alwaysAllow, tool: Write, args: {file_path: a}}]", permission.Ask},
		{"memory of an outer scope", "rules: {deny: [Write]}, tool: Write, args: {file_path: a}, sessionMemory: [{decision: alwaysAllow, tool: Write, args: {file_path: a}, scope: outer}]", permission.Deny},
		{"a skill's rule", "rules: {}, tool: Read, args: {file_path: a}, skillRules: ['Read(./*)'], skillScope: user", permission.Allow},
		{"a project skill's rule", "rules: {}, tool: Read, args: {file_path: a}, skillRules: ['Read(./*)'], skillScope: project", permission.Ask},
		{"a skill's rule that is refused", "rules: {}, tool: Read, args: {file_path: /etc/passwd}, skillRules: ['Read(/etc/*)'], skillScope: user", permission.Ask},
		{"the parent", "rules: {allow: [Read]}, parentRules: {default: deny}, tool: Read, args: {file_path: a}", permission.Deny},
		{"the requester", "rules: {allow: [Read]}, onBehalfOf: {allow: [Write], default: ask}, tool: Read, args: {file_path: a}", permission.Ask},
		{"a private address", "rules: {allow: ['WebFetch(domain:a.example)']}, tool: WebFetch, args: {url: 'https://a.example/'}, resolve: {a.example: [93.184.215.14, 10.0.0.1]}", permission.Deny},
		{"a public address", "rules: {allow: ['WebFetch(domain:a.example)']}, tool: WebFetch, args: {url: 'https://a.example/'}, resolve: {a.example: [93.184.215.14]}", permission.Allow},
		{"a redirect to elsewhere", "rules: {allow: ['WebFetch(domain:a.example)']}, tool: WebFetch, args: {url: 'https://a.example/'}, redirects: ['/b', 'https://b.example/']", permission.Ask},
		{"a redirect to plaintext", "rules: {allow: ['WebFetch(domain:a.example)']}, tool: WebFetch, args: {url: 'https://a.example/'}, redirects: ['http://a.example/']", permission.Deny},
		{"a redirect within", "rules: {allow: ['WebFetch(domain:*.a.example)']}, tool: WebFetch, args: {url: 'https://x.a.example/'}, redirects: ['/b', 'https://y.a.example/']", permission.Allow},
		{"a redirect inwards", "rules: {allow: [WebFetch]}, tool: WebFetch, args: {url: 'http://a.example/'}, redirects: ['http://b.example'], resolve: {b.example: ['::1']}", permission.Deny},
		{"an argument that the tool does not have", "rules: {allow: [Bash]}, tool: Bash, args: {command: ls, working_dir: /etc}", permission.Deny},
		{"a home that the tool does not know", "rules: {allow: [Read]}, tool: Read, args: {file_path: '~/x'}", permission.Deny},
		{"a glob above", "rules: {allow: [Glob]}, tool: Glob, args: {pattern: '../**'}", permission.Deny},
		{"an absolute glob", "rules: {allow: [Glob]}, tool: Glob, args: {pattern: '/etc/*'}", permission.Deny},
		{"a grep for names above", "rules: {allow: [Grep]}, tool: Grep, args: {pattern: '/../x'}", permission.Allow},
		{"a glob", "rules: {allow: [Glob]}, tool: Glob, args: {pattern: '**/*.go', path: ''}", permission.Allow},
		{"a redirect does not widen", "rules: {allow: ['WebFetch(domain:a.example)']}, tool: WebFetch, args: {url: 'https://b.example/'}, redirects: ['https://a.example/']", permission.Ask},
	} {
		r := judge(t, "- {id: x, kind: benign, expect: allow, "+c.text+"}")[0]
		if r.Verdict != c.want || r.OK != (c.want == permission.Allow) {
			t.Errorf("%s: got %v (%s), ok %v; want %v", c.name, r.Verdict, r.Why, r.OK, c.want)
		}
	}
}

// Of the cases beside the rules those with raw arguments, names and redirects can only be judged here; of the
// others some, to see that both judge alike.
func TestCasesOfTheRulesAreAsExpected(t *testing.T) {
	files, err := filepath.Glob("../../../../security/permission/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	w, err := cases.NewWorld()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := cases.Read(f)
		f.Close()
		if err != nil {
			t.Fatal(name, err)
		}
		for i, c := range list {
			if c.IsOtherOS() || c.ArgsRaw == "" && c.Resolve == nil && c.Redirects == nil && i%10 > 0 {
				continue
			}
			if r, err := w.Judge(c); err != nil || !r.OK {
				t.Errorf("%s (%s): got %v (%s), %v; want %v: %s", c.ID, c.Kind, r.Verdict, r.Why, err, r.Expect, c.Why)
			}
		}
	}
}

func TestOfAnAttackAStricterVerdictIsRight(t *testing.T) {
	for kind, want := range map[string][3]bool{"attack": {true, true, false}, "benign": {false, true, false}} {
		for i, def := range []string{"deny", "ask", "allow"} {
			r := judge(t, "- {id: x, kind: "+kind+", expect: ask, tool: Read, args: {file_path: a}, rules: {default: "+def+"}}")[0]
			if r.OK != want[i] {
				t.Errorf("%s that expects ask and gets %s: ok %v, want %v", kind, def, r.OK, want[i])
			}
		}
	}
}

func TestFileThatIsNotClearIsRefused(t *testing.T) {
	const good = "id: a, kind: attack, tool: T, rules: {}, expect: ask"
	for text, want := range map[string]string{
		"":                        "empty",
		"version: 2\ncases: []":   "version 2",
		"cases: []":               "version 0",
		"version: 1\ncases: [{}]": "no id",
		"version: 1\ncases: [{" + good + ", more: 1}]":                                                 "more",
		"version: 1\ncases: [{" + good + "}, {" + good + "}]":                                          "twice",
		"version: 1\ncases: [{" + strings.Replace(good, "attack", "other", 1) + "}]":                   "kind",
		"version: 1\ncases: [{" + strings.Replace(good, "expect: ask", "expect: perhaps", 1) + "}]":    "perhaps",
		"version: 1\ncases: [{" + good + ", args: {a: 1}, argsRaw: x}]":                                "argsRaw",
		"version: 1\ncases: [{" + good + ", skillScope: world}]":                                       "skillScope",
		"version: 1\ncases: [{" + good + ", sessionMemory: [{decision: maybe, tool: T}]}]":             "decision",
		"version: 1\ncases: [{" + strings.Replace(good, "rules: {}", "rules: {default: no}", 1) + "}]": "default",
	} {
		list, err := cases.Read(strings.NewReader(text))
		if err == nil {
			w, worldErr := cases.NewWorld()
			if worldErr != nil {
				t.Fatal(worldErr)
			}
			for _, c := range list {
				_, judged := w.Judge(c)
				err = errors.Join(err, judged)
			}
			if closed := w.Close(); closed != nil {
				t.Error(closed)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one about %q", text, err, want)
		}
	}
}

func TestSetupStaysInItsWorld(t *testing.T) {
	elsewhere := t.TempDir()
	for _, setup := range []string{
		"{files: {'" + elsewhere + "/x': y}}",
		"{dirs: ['${WORK}/../../../../x']}",
		"{symlinks: {'" + elsewhere + "/x': y}}",
		"{cwd: '" + elsewhere + "/x'}",
		"{symlinks: {'${WORK}/d': '" + elsewhere + "'}, files: {}, dirs: []}",
	} {
		list, err := cases.Read(strings.NewReader("version: 1\ncases: [{id: a, kind: attack, tool: T, rules: {}, expect: ask, setup: " + setup + "}]"))
		if err != nil {
			t.Fatal(err)
		}
		w, err := cases.NewWorld()
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Judge(list[0])
		if links := strings.Contains(setup, "${WORK}/d"); (err == nil) != links {
			t.Errorf("%s: error %v", setup, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(elsewhere + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left elsewhere: %v, %v", left, err)
	}
}

func TestWorldLeavesNothingAndPutsHomeBack(t *testing.T) {
	before, tmp := os.Getenv("HOME"), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	judge(t, "- {id: a, kind: attack, tool: Read, rules: {}, expect: ask, args: {file_path: '~/x'}, setup: {files: {'${HOME}/x': y, '${OUTSIDE}/z/y': x}}}")
	if after := os.Getenv("HOME"); after != before {
		t.Errorf("HOME is %s, was %s", after, before)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestCaseHasHomeOfItsOwn(t *testing.T) {
	const rest = ", kind: attack, expect: ask, rules: {}, tool: Read, args: {file_path: '~/x'}, setup: {symlinks: {'${HOME}/x': '${WORK}'}}}\n"
	if got := judge(t, "- {id: a"+rest+"- {id: b"+rest); len(got) != 2 {
		t.Errorf("%d results, want 2", len(got))
	}
}

func FuzzReadNeverPanics(f *testing.F) {
	f.Add("version: 1\ncases: [{id: a, kind: attack, tool: T, rules: {}, expect: ask}]")
	f.Fuzz(func(t *testing.T, text string) {
		if list, err := cases.Read(strings.NewReader(text)); err != nil && list != nil {
			t.Errorf("cases beside an error: %v", err)
		}
	})
}
