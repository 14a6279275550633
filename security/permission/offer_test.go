package permission_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"symbio/security/permission"
)

// offering returns a chain of one link, and what makes it with grants.
func offering(policy permission.Policy) func(...permission.Grant) permission.Chain {
	return func(more ...permission.Grant) permission.Chain {
		return permission.Chain{{Policy: policy, Memory: new(permission.Memory), Granted: func() []permission.Grant { return more }}}
	}
}

// offersOf returns the offers for a call under a policy, by their kinds.
func offersOf(policy permission.Policy, c permission.Call) map[string]permission.Offer {
	all := map[string]permission.Offer{}
	with := offering(policy)
	for _, o := range c.Offers(with().Judge(c).Plan, with) {
		all[o.Kind] = o
	}
	return all
}

func TestOffersAreWhatPeopleMean(t *testing.T) {
	standard := preset(t, "standard", permission.Config{Deny: permission.Rules("Bash(git push:*)", "Edit(secret/*)", "Read(.env)")})
	none := preset(t, "none", permission.Config{})
	no := false
	forgets := preset(t, "standard", permission.Config{SessionMemory: &no})
	const changes = "Write(./*) Edit(./*) MultiEdit(./*) Bash(box:work) Git(box:work)"
	git := func(words ...string) permission.Call {
		c := call("Git", "command", words[0], permission.AccessArg, "write")
		args := []any{}
		for _, w := range words[1:] {
			args = append(args, w)
		}
		c.Args["args"] = args
		return held(c)
	}
	guarded, asked := on(bash("make"), "write"), on(bash("make"), "write")
	guarded.Within = []permission.Guardrail{{Deny: []permission.Rule{rule(t, "Bash(make:*)")}}}
	asked.Within = []permission.Guardrail{{Ask: []permission.Rule{rule(t, "Bash(make:*)")}}}
	unheld := call("Bash", "command", "touch a.go", permission.AccessArg, "write")
	for name, c := range map[string]struct {
		policy               permission.Policy
		call                 permission.Call
		changes, words, host string
	}{
		"a command that writes":                          {standard, on(bash("go test ./..."), "write"), changes, "Bash(go test:*)", ""},
		"a program alone":                                {standard, on(bash("touch a.txt"), "write"), changes, "Bash(touch:*)", ""},
		"several commands":                               {standard, on(bash("cd sub && touch a.go && go build ./... && touch b.go"), "write"), changes, "Bash(touch:*) Bash(go build:*)", ""},
		"a variable that changes nothing":                {standard, on(bash("LANG=C sort -o x y"), "write"), changes, "Bash(sort:*)", ""},
		"an interpreter":                                 {standard, on(bash("python3 x.py"), "write"), changes, "", ""},
		"what only the shell knows":                      {standard, on(bash("$X"), "write"), "", "", ""}, // it may be a denied push
		"what only the shell knows, with nothing denied": {preset(t, "standard", permission.Config{}), on(bash("touch $X"), "write"), changes, "", ""},
		"a redirection":                                  {standard, on(bash("go list ./... > out"), "write"), changes, "", ""},
		"the network":                                    {standard, on(bash("curl x"), "network"), "", "", ""},
		"no sandbox":                                     {standard, unheld, "", "Bash(touch:*)", ""},
		"the Git tool":                                   {standard, git("commit", "-m", "x"), changes, "Git(commit:*)", ""},
		"the Git tool, denied":                           {standard, git("push"), "", "", ""},
		"looking, asked about":                           {none, on(bash("ls -la"), ""), "", "Bash(ls:*)", ""},
		"a write":                                        {standard, held(call("Write", "file_path", "lib/a.go")), changes, "", ""},
		"a write, by its whole path":                     {standard, held(call("Edit", "file_path", "/nowhere/work/a.go")), changes, "", ""},
		"a write elsewhere":                              {standard, held(call("Write", "file_path", "/elsewhere/a")), "", "", ""},
		"a write that is denied":                         {standard, held(call("Write", "file_path", "secret/a")), "", "", ""},
		"what other programs obey":                       {standard, held(call("Write", "file_path", ".git/hooks/pre-commit")), "", "", ""},
		"a host":                                         {standard, held(call("WebFetch", "url", "https://go.dev/x?y")), "", "", "WebFetch(domain:go.dev)"},
		"a host of the local network":                    {standard, held(call("WebFetch", "url", "http://127.0.0.1/")), "", "", ""},
		"an ambiguous URL":                               {standard, held(call("WebFetch", "url", `https://go.dev\@x.org/`)), "", "", ""},
		"another tool":                                   {standard, held(call("mcp__a__b", "q", "x")), "", "", ""},
		"a guardrail denies":                             {standard, guarded, "", "", ""},
		"a guardrail asks":                               {standard, asked, "", "", ""},
		"answers are not remembered":                     {forgets, on(bash("make x"), "write"), "", "", ""},
		"it is allowed":                                  {preset(t, "workspace", permission.Config{}), on(bash("make x"), "write"), "", "", ""},
	} {
		got := offersOf(c.policy, c.call)
		for kind, want := range map[string]string{permission.OfferChanges: c.changes, permission.OfferWords: c.words,
			permission.OfferHost: c.host} {
			if rules := strings.Join(got[kind].Rules, " "); rules != want || want != "" && got[kind].Text == "" {
				t.Errorf("%s: for %s are offered %q (%s), want %q", name, kind, rules, got[kind].Text, want)
			}
		}
	}
}

// A link that takes no grants, such as a definition, asks each time; so nothing is offered.
func TestNothingIsOfferedThatWouldNotAnswer(t *testing.T) {
	standard, defined := preset(t, "standard", permission.Config{}), permission.Link{Policy: preset(t, "none", permission.Config{})}
	c := on(bash("go test ./..."), "write")
	with := func(more ...permission.Grant) permission.Chain { return append(offering(standard)(more...), defined) }
	if all := c.Offers(with().Judge(c).Plan, with); len(all) > 0 {
		t.Errorf("offered are %+v", all)
	}
}

func TestOfferAnswersTheNextQuestions(t *testing.T) {
	standard := preset(t, "standard", permission.Config{Deny: permission.Rules("Bash(git push:*)")})
	o := offersOf(standard, on(bash("touch x"), "write"))[permission.OfferChanges]
	granted, err := permission.Grants(o.Rules, "/nowhere/work", "session:1")
	if err != nil {
		t.Fatal(err)
	}
	chain := offering(standard)(granted...)
	elsewhere := on(bash("touch x"), "write")
	elsewhere.Dir = "/elsewhere"
	for name, c := range map[string]struct {
		call permission.Call
		want permission.Action
	}{
		"another command": {on(bash("rm a"), "write"), permission.Allow}, "a write": {held(call("Write", "file_path", "a")), permission.Allow},
		"a denied command": {on(bash("git push"), "write"), permission.Deny}, "what may be one": {on(bash("$X"), "write"), permission.Ask},
		"the network": {on(bash("curl x"), "network"), permission.Ask}, "another directory": {elsewhere, permission.Ask},
		"what other programs obey": {held(call("Write", "file_path", ".envrc")), permission.Ask}, "outside": {held(call("Write", "file_path", "../a")), permission.Ask},
	} {
		v := chain.Judge(c.call)
		if v.Action != c.want || c.want == permission.Allow && v.Source != "session:1" {
			t.Errorf("%s: %v by %q (%s), want %v", name, v.Action, v.Source, v.Why, c.want)
		}
	}
}

// What a person allows for a directory is for policies that ask: one that denies by default goes on denying.
func TestOfferIsForPoliciesThatAsk(t *testing.T) {
	granted, err := permission.Grants([]string{"Write(./*)", "Bash(go test:*)"}, "/nowhere/work", "session:1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]permission.Action{"standard": permission.Allow, "restrictive": permission.Deny,
		"read_only": permission.Deny} {
		chain := offering(preset(t, name, permission.Config{}))(granted...)
		for _, c := range []permission.Call{held(call("Write", "file_path", "a")), on(bash("go test"), "write")} {
			if v := chain.Judge(c); v.Action != want {
				t.Errorf("%s: %s: %v (%s), want %v", name, c, v.Action, v.Why, want)
			}
		}
	}
}

func TestOfferShowsWhatItCovers(t *testing.T) {
	standard := preset(t, "standard", permission.Config{Deny: permission.Rules("Bash(go test ./secret)")})
	all := offersOf(standard, on(bash("go test ./..."), "write"))
	for name, c := range map[string]struct {
		call           permission.Call
		changes, words bool
		shown          string
	}{
		"the same words":     {bash("go test ./a"), false, true, "Bash go test ./a"},
		"the same, to write": {on(bash("go test\t./b"), "write"), true, true, "Bash go test ./b"},
		"other words":        {bash("go vet"), false, false, "Bash go vet"},
		"it is denied":       {on(bash("go test ./secret"), "write"), false, false, "Bash go test ./secret"},
		"an edit":            {call("Edit", "file_path", "a", "old_string", "x"), true, false, "Edit a"},
		"an edit elsewhere":  {call("Edit", "file_path", "/elsewhere/a"), false, false, "Edit /elsewhere/a"},
		"looking":            {bash("ls"), false, false, "Bash ls"},
		"another tool":       {call("mcp__a__b", "q", "x"), false, false, "mcp__a__b "},
		"Git":                {call("Git", "command", "log -1", permission.AccessArg, "write"), true, false, "Git log -1"},
		"several lines":      {bash("go test ./a\ngo test ./c"), false, true, "Bash go test ./a go test ./c"},
	} {
		kept := c.call.Subject()
		for kind, want := range map[string]bool{permission.OfferChanges: c.changes, permission.OfferWords: c.words} {
			granted, err := permission.Grants(all[kind].Rules, "/nowhere/work", "x")
			if got := offering(standard)(granted...).Covers(all[kind], kept); err != nil || got != want {
				t.Errorf("%s: %s covers it: %v, %v; want %v", name, kind, got, err, want)
			}
		}
		if got := kept.String(); got != c.shown {
			t.Errorf("%s: shown as %q, want %q", name, got, c.shown)
		}
		if _, has := kept.Args["old_string"]; has {
			t.Errorf("%s: kept with what no rule compares", name)
		}
	}
}

// Whatever is offered under any rules: what a rule denied is denied with it, and what a rule or a guardrail asked about is asked about.
func TestNoOfferLiftsADenial(t *testing.T) {
	calls := slices.Clone(someCalls)
	for _, command := range []string{"git status", "rm -rf x", "git push", "touch a", "go test ./a", "echo $X", "cat /w/a > b"} {
		for _, access := range []string{"", "write", "network"} {
			c := bash(command)
			c.Dir = "/w"
			calls = append(calls, on(c, access))
		}
	}
	calls = append(calls, permission.Call{Tool: "Write", Args: map[string]any{"file_path": ".git/hooks/x"}, Dir: "/w"},
		permission.Call{Tool: "Edit", Args: map[string]any{"file_path": ".envrc"}, Dir: "/w"})
	offered := 0
	rapid.Check(t, func(t *rapid.T) {
		policy, c, other := drawPolicy(t), rapid.SampledFrom(calls).Draw(t, "call"), rapid.SampledFrom(calls).Draw(t, "other")
		if rapid.Bool().Draw(t, "guarded") {
			other.Within = []permission.Guardrail{{Deny: drawRules(t, "within"), Ask: drawRules(t, "asked")}}
		}
		with := offering(policy)
		before := with().Judge(other)
		for _, o := range c.Offers(with().Judge(c).Plan, with) {
			offered++
			granted, err := permission.Grants(o.Rules, "/w", "x")
			if err != nil {
				t.Fatal(err)
			}
			after := with(granted...).Judge(other)
			ruled := before.Rule != "" || before.Stage != permission.StageDefault
			if after.Action > before.Action && ruled || after.Action > permission.Ask && strings.Contains(before.Why, "obey") {
				t.Fatalf("%v for %s made %v (%s) of %v (%s) for %s", o.Rules, c, after.Action, after.Why, before.Action, before.Why, other)
			}
		}
	})
	if offered == 0 {
		t.Error("nothing was offered")
	}
}
