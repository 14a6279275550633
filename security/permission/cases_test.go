package permission_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"symbio/security/permission"
)

// caseRules are the rules of a case.
type caseRules struct {
	FinalDeny []string `yaml:"finalDeny"`
	Deny      []string `yaml:"deny"`
	Overrides []string `yaml:"overrides"`
	Allow     []string `yaml:"allow"`
	Default   string   `yaml:"default"`
}

// aCase is a call, and what has to come of it: of an attack expect or something stricter, of a benign
// one nothing but allow.
type aCase struct {
	ID    string         `yaml:"id"`
	Kind  string         `yaml:"kind"`
	Rules caseRules      `yaml:"rules"`
	Tool  string         `yaml:"tool"`
	Args  map[string]any `yaml:"args"`
	Setup struct {
		Cwd      string            `yaml:"cwd"`
		Dirs     []string          `yaml:"dirs"`
		Files    map[string]string `yaml:"files"`
		Symlinks map[string]string `yaml:"symlinks"`
	} `yaml:"setup"`
	SessionMemory []struct {
		Decision string         `yaml:"decision"`
		Tool     string         `yaml:"tool"`
		Args     map[string]any `yaml:"args"`
		Scope    string         `yaml:"scope"`
	} `yaml:"sessionMemory"`
	SkillRules  []string   `yaml:"skillRules"`
	SkillScope  string     `yaml:"skillScope"`
	ParentRules *caseRules `yaml:"parentRules"`
	OnBehalfOf  *caseRules `yaml:"onBehalfOf"`
	// Cases with these are judged where there are tools and networks: internal/agent/tool/cases.
	OS        string              `yaml:"os"`
	ArgsRaw   string              `yaml:"argsRaw"`
	Resolve   map[string][]string `yaml:"resolve"`
	Redirects []string            `yaml:"redirects"`

	Expect string `yaml:"expect"`
	Why    string `yaml:"why"`
}

// policy reads the rules; ok is false when one of them is no rule.
func (r caseRules) policy(t *testing.T) (p permission.Policy, ok bool) {
	t.Helper()
	ok = true
	p.Default = permission.Ask
	if r.Default != "" {
		a, err := permission.ParseAction(r.Default)
		if err != nil {
			t.Fatal(err)
		}
		p.Default = a
	}
	for texts, to := range map[*[]string]*[]permission.Rule{&r.FinalDeny: &p.FinalDeny, &r.Deny: &p.Deny, &r.Overrides: &p.Override,
		&r.Allow: &p.Allow} {
		for _, text := range *texts {
			rule, err := permission.ParseRule(text)
			ok = ok && err == nil
			*to = append(*to, rule)
		}
	}
	return p, ok
}

func caseFiles(t *testing.T) map[string][]aCase {
	t.Helper()
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	all := map[string][]aCase{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Version int     `yaml:"version"`
			Cases   []aCase `yaml:"cases"`
		}
		dec := yaml.NewDecoder(bytes.NewReader(text))
		dec.KnownFields(true)
		if err := dec.Decode(&file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = file.Cases
	}
	return all
}

func TestCases(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for name, cases := range caseFiles(t) {
		count := map[string]int{}
		for _, c := range cases {
			count[c.Kind]++
			if ids[c.ID] {
				t.Errorf("%s: %s is there twice", name, c.ID)
			}
			ids[c.ID] = true
			if c.OS != "" || c.ArgsRaw != "" || c.Resolve != nil || c.Redirects != nil {
				continue
			}
			own := dir
			if c.Setup.Files != nil || c.Setup.Dirs != nil || c.Setup.Symlinks != nil {
				own = filepath.Join(dir, c.ID)
			}
			c.run(t, own)
		}
		t.Logf("%s: %d attacks, %d benign", name, count["attack"], count["benign"])
	}
}

func (c aCase) run(t *testing.T, dir string) {
	t.Helper()
	work, outside, home := filepath.Join(dir, "work"), filepath.Join(dir, "outside"), filepath.Join(dir, "home")
	t.Setenv("HOME", home)
	c = c.in(t, strings.NewReplacer("${WORK}", work, "${OUTSIDE}", outside, "${HOME}", home))
	c.prepare(t, work)
	p, ok := c.Rules.policy(t)
	link := permission.Link{Name: "agent", Policy: p, Memory: &permission.Memory{}}
	cwd := work
	if c.Setup.Cwd != "" {
		cwd = c.Setup.Cwd
	}
	for _, m := range c.SessionMemory {
		under := p
		if m.Scope == "outer" {
			under = permission.Policy{Default: p.Default}
		}
		answer := permission.Allow
		if strings.Contains(strings.ToLower(m.Decision), "deny") {
			answer = permission.Deny
		}
		link.Memory.Remember(permission.Call{Tool: m.Tool, Args: m.Args, Dir: cwd}, under, answer)
	}
	link.Granted = func() (all []permission.Grant) {
		for _, text := range c.SkillRules {
			if r, err := permission.ParseGrant(text); err == nil && c.SkillScope != "project" {
				all = append(all, permission.Grant{Rule: r, Source: "skill:case"})
			}
		}
		return all
	}
	chain := permission.Chain{link}
	for name, more := range map[string]*caseRules{"parent": c.ParentRules, "requester": c.OnBehalfOf} {
		if more != nil {
			q, fine := more.policy(t)
			ok = ok && fine
			chain = append(chain, permission.Link{Name: name, Policy: q})
		}
	}
	call := held(permission.Call{Tool: c.Tool, Args: c.Args, Dir: cwd})
	if c.Kind == "attack" && c.deniesFiles() { // a sandbox would hide them
		call.Kept = nil
	}
	v := chain.Judge(call)
	if !ok {
		v.Action = min(v.Action, permission.Ask) // a policy that cannot be read is not loaded
	}
	want, err := permission.ParseAction(c.Expect)
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	if call.Kept == nil {
		want = max(want, permission.Ask)
	}
	if v.Action > want && v.Box != permission.BoxLook || c.Kind == "benign" && v.Action != permission.Allow {
		t.Errorf("%s (%s): %v\n\tgot %v (%s: %s)\n\twant %v: %s", c.ID, c.Kind, c.Args, v.Action, v.Stage, v.Why, want, c.Why)
	}
}

// deniesFiles reports whether a rule keeps files from commands, which a sandbox does.
func (c aCase) deniesFiles() bool {
	return slices.ContainsFunc(slices.Concat(c.Rules.FinalDeny, c.Rules.Deny), func(rule string) bool {
		return c.Tool == "Bash" && !strings.HasPrefix(rule, "Bash") && !strings.HasPrefix(rule, "Git")
	})
}

// in puts the directories of this run into the case.
func (c aCase) in(t *testing.T, dirs *strings.Replacer) aCase {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var out aCase
	if err := json.Unmarshal([]byte(dirs.Replace(string(text))), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (c aCase) prepare(t *testing.T, work string) {
	t.Helper()
	make := func(err error) {
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
	}
	make(os.MkdirAll(work, 0o755))
	for _, d := range c.Setup.Dirs {
		make(os.MkdirAll(d, 0o755))
	}
	for name, text := range c.Setup.Files {
		make(os.MkdirAll(filepath.Dir(name), 0o755))
		make(os.WriteFile(name, []byte(text), 0o600))
	}
	for link, target := range c.Setup.Symlinks {
		make(os.MkdirAll(filepath.Dir(link), 0o755))
		make(os.Symlink(target, link))
	}
}
