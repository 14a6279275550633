package permission_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/security/permission"
)

func TestParseRuleKeepsWhatWasWritten(t *testing.T) {
	for _, text := range []string{
		"Read", "*", "mcp__*", "mcp__srv__*", "mcp__db__query(sql=SELECT:*)", "Bash(git:*)", "Bash(git *)", "Bash(npm test)",
		"Bash(rm:*.tmp)", `Bash(echo "(a)")`, "Bash(*)", "Write(/tmp/*)", "Read(~/notes/*)", "Read(.env)", "Read(../x/*.go)", "Edit(//abs)",
		"WebFetch(domain:x.org)", "WebFetch(domain:*.X.org)", "Skill(review-*)", "Agent(a, b)", "send_signal(work)", "Git(log:*)", "T1-x_(y)",
	} {
		r, err := permission.ParseRule(text)
		if err != nil {
			t.Errorf("ParseRule(%q): %v", text, err)
		}
		if r.String() != text {
			t.Errorf("ParseRule(%q).String() = %q", text, r)
		}
	}
}

func TestParseRuleRefusesWhatIsNotClear(t *testing.T) {
	for text, want := range map[string]struct {
		column int
		reason string
	}{
		"":                          {1, "empty"},
		"Bash(git:*":                {11, "closing parenthesis"},
		"Bash()":                    {6, "empty"},
		"Bash)":                     {5, "name"},
		"Bash(a)b":                  {8, "follows"},
		"Bash(a))":                  {8, "follows"},
		"Bash(a)(b)":                {8, "follows"},
		"Bash( git)":                {6, "blanks"},
		"Bash(git )":                {6, "blanks"},
		"Bash(:*)":                  {6, "missing"},
		"Bash(a\nb)":                {7, "U+000A"},
		"Bash(a\u202eb)":            {7, "U+202E"},
		"Bash(a\u00a0b)":            {7, "U+00A0"},
		"Read(é\x00)":               {7, "U+0000"},
		"Read(a\xff)":               {7, "UTF-8"},
		" Read":                     {1, "name"},
		"Read ":                     {5, "name"},
		"(x)":                       {1, "missing"},
		"1Read":                     {1, "name"},
		"Réad":                      {2, "name"},
		"mcp.x":                     {4, "name"},
		"bash(rm:*)":                {1, "did you mean Bash?"},
		"READ":                      {1, "did you mean Read?"},
		"R*(x)":                     {1, "beside one tool's name"},
		"*(x)":                      {1, "beside one tool's name"},
		"Read(/a/*/../b)":           {9, "cannot follow"},
		"Read(*.{go,c})":            {8, "wildcard"},
		"Read(~root/x)":             {6, "home"},
		"WebFetch(x.org)":           {10, "domain:"},
		"WebFetch(domain:)":         {17, "host"},
		"WebFetch(domain:*x.org)":   {17, "host"},
		"WebFetch(domain:a..b)":     {17, "host"},
		"WebFetch(domain:a.b/c)":    {17, "host"},
		"WebFetch(domain:b ü.e)":    {17, "host"},
		"WebFetch(domain:10.0.0.1)": {17, "ip:10.0.0.1"},
		"WebFetch(ip:x.org)":        {13, "ip:ADDRESS"},
		"WebFetch(ip:127.0.0.1:0)":  {13, "ip:ADDRESS"},
		"WebFetch(ip:::1%lo)":       {13, "ip:ADDRESS"},
		"Read(" + strings.Repeat("a", 5000) + ")": {4097, "longer"},
	} {
		r, err := permission.ParseRule(text)
		var bad *permission.RuleError
		if !errors.As(err, &bad) {
			t.Errorf("ParseRule(%q) = %v, %v; want a RuleError", text, r, err)
			continue
		}
		if bad.Rule != text || bad.Column != want.column || !strings.Contains(bad.Reason, want.reason) {
			t.Errorf("ParseRule(%.40q): column %d, %q; want column %d and %q", text, bad.Column, bad.Reason, want.column, want.reason)
		}
	}
}

func TestParseListCutsOutsideParentheses(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                    nil,
		" , ":                                 nil,
		"Bash(git:*) Read":                    {"Bash(git:*)", "Read"},
		"Bash(npm run test *)":                {"Bash(npm run test *)"},
		"Read, Grep,Glob":                     {"Read", "Grep", "Glob"},
		"Read\u00a0Grep\nRead":                {"Read", "Grep"},
		"Bash(git add:*, git commit:*) X":     {"Bash(git add:*, git commit:*)", "X"},
		"Agent(a, b)":                         {"Agent(a, b)"},
		`Bash(python -c "print(1)") Skill(x)`: {`Bash(python -c "print(1)")`, "Skill(x)"},
	} {
		got, err := permission.ParseList(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("ParseList(%q): %v %s", text, err, diff)
		}
	}
	for _, text := range []string{"Bash(git add Read", "Read)", "A(b))"} {
		if got, err := permission.ParseList(text); err == nil {
			t.Errorf("ParseList(%q) = %q; want an error", text, got)
		}
	}
}

func TestParseGrantIsNarrowerThanParseRule(t *testing.T) {
	for _, text := range []string{
		"Read", "Write", "Bash(git status)", "Bash(git:*)", "mcp__github__*", "mcp__github__list", "Read(docs/*)", "Read(./docs/*)",
		"Read(${CLAUDE_SKILL_DIR}/references/*)", "Read(${CLAUDE_SKILL_DIR})", "Read(${SKILL_DIR}/a)", "WebFetch(domain:x.org)", "Skill(a)", "Git(log:*)",
	} {
		if _, err := permission.ParseGrant(text); err != nil {
			t.Errorf("ParseGrant(%q): %v", text, err)
		}
	}
	for _, text := range []string{
		"*", "R*", "mcp__*", "mcp__*__x", "mcp__a*__x", "mcp__x*", "mcp__(x)*", "Bash", "Bash(*)", "Bash(**)", "Bash(:*)", "Read(/etc/*)", "Read(~/x)", "Read(//etc)",
		"Read(../x)", "Read(a/../../x)", "Read(${CLAUDE_SKILL_DIR}x/*)", "Read(${CLAUDE_SKILL_DIR}/../x)", "Read(${HOME}/x)", "Bash(git", "",
	} {
		if r, err := permission.ParseGrant(text); err == nil {
			t.Errorf("ParseGrant(%q) = %v; want an error", text, r)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"Read", "Bash(git:*)", "Bash(git:*", "Write(/tmp/*)", "mcp__a__*", "WebFetch(domain:*.x)",
		"Read(${CLAUDE_SKILL_DIR}/x)", "A(b))", "Read(~/\xff)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (permission.Rule, error){permission.ParseRule, permission.ParseGrant} {
			r, err := parse(text)
			var bad *permission.RuleError
			switch {
			case err == nil && r.String() != text:
				t.Errorf("%q became %q", text, r)
			case err != nil && (!errors.As(err, &bad) || bad.Column < 1):
				t.Errorf("%q: %v is no RuleError with a column", text, err)
			case err != nil && !reflect.DeepEqual(r, permission.Rule{}):
				t.Errorf("%q: a rule beside an error", text)
			}
		}
		if rules, err := permission.ParseList(text); err == nil {
			for _, r := range rules {
				if again, err := permission.ParseList(r); err != nil || len(again) != 1 || again[0] != r {
					t.Errorf("%q of %q is cut again: %q %v", r, text, again, err)
				}
			}
		}
	})
}
