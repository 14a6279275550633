package skills_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"symbio/skills"
)

// withBody writes a skill with a body of its own.
func withBody(t *testing.T, dir, body string) string {
	t.Helper()
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: "+filepath.Base(dir)+"\ndescription: A test skill\n---\n"+body)
	return dir
}

func TestArgumentsTakeTheirPlacesInText(t *testing.T) {
	root := real(t)
	for i, test := range []struct{ body, arguments, want string }{
		{"Do $ARGUMENTS.", `a "b c"`, `Do a "b c".`},
		{"$1 and $2", `a "b c"`, "a and b c"},
		{"$0 and $1", "a b", "a and b"},
		{"$ARGUMENTS[0] $ARGUMENTS[1] $ARGUMENTS[7]", "a b", "a b $ARGUMENTS[7]"},
		{"$1 $9", "a", "a $9"},
		{"$1 $2 $3", `'a' "" "b`, "a  b"},
		{`awk '{print $1}' $ARGUMENTS`, "", `awk '{print $1}' `},
		{`\$1 $1 \$ARGUMENTS`, "a", "$1 a $ARGUMENTS"},
		{`\$1`, "", `\$1`},
		{"$10 $ARGUMENTSX $1x US$", "a", "$10 $ARGUMENTSX $1x US$"},
		{"$1", "$2 b", "$2"},
		{"$1 $2", "$ARGUMENTS ${CLAUDE_SKILL_DIR}", "$ARGUMENTS ${CLAUDE_SKILL_DIR}"},
		{"$ARGUMENTS in ${SKILL_DIR}", "{baseDir} $1", "{baseDir} $1 in <dir>"},
		{"${CLAUDE_PLUGIN_ROOT}/x {baseDir}", "", "<dir>/x <dir>"},
		{"no place", "a", "no place"},
	} {
		dir := withBody(t, filepath.Join(root, strings.Repeat("a", i+1)), test.body)
		r, _ := registry(t, user(dir))
		a, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: filepath.Base(dir), Arguments: test.arguments})
		if want := strings.ReplaceAll(test.want, "<dir>", dir); err != nil || a.Instructions != want {
			t.Errorf("%q with %q: got %q (%v), want %q", test.body, test.arguments, a.Instructions, err, want)
		}
	}
}

func TestPluginRootIsDirectoryOfPlugin(t *testing.T) {
	root := real(t)
	write(t, filepath.Join(root, "p/.claude-plugin/plugin.json"), "{}")
	withBody(t, filepath.Join(root, "p/skills/one"), "${CLAUDE_PLUGIN_ROOT}")
	r, _ := registry(t, user(root))
	if a := activate(t, r, "ann", "one"); a.Instructions != filepath.Join(root, "p") {
		t.Errorf("got %q", a.Instructions)
	}
}

// The text that a model sees again, after other arguments or a compaction, has the right arguments.
func TestArgumentsStayWithActivation(t *testing.T) {
	root := real(t)
	withBody(t, filepath.Join(root, "one"), "Do $1.")
	r, _ := registry(t, user(root))
	take := func(arguments string) skills.Activation {
		t.Helper()
		a, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one", Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if take("x").Repeat || take("y").Repeat || !take("y").Repeat {
		t.Error("a text with other arguments is not the one that the model has")
	}
	again, err := r.Reattach(t.Context(), "ann", 1)
	if err != nil || len(again) != 1 || again[0].Instructions != "Do y." {
		t.Errorf("after a compaction: %+v %v", again, err)
	}
	_, err = r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one",
		Arguments: strings.Repeat("x", skills.MaxArguments+1)})
	if !errors.Is(err, skills.ErrInvalid) {
		t.Errorf("long arguments: got %v", err)
	}
}

// Arguments could otherwise widen what a person has accepted.
func TestArgumentsNeverReachGrantRule(t *testing.T) {
	root := real(t)
	skill(t, filepath.Join(root, "one"), "allowed-tools: Bash(echo $1) Bash(echo $ARGUMENTS) Read(./$1/*) Read(${CLAUDE_PLUGIN_ROOT}/*)")
	r, _ := registry(t, user(root))
	a, err := r.Activate(t.Context(), skills.ActivateRequest{Agent: "ann", Name: "one", Arguments: "rm /"})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range append(a.Granted, granted(r, "ann")...) {
		if strings.Contains(rule, "rm") {
			t.Errorf("granted: %s", rule)
		}
	}
	for _, w := range a.Withheld {
		if strings.Contains(w.Rule, "PLUGIN_ROOT") {
			return
		}
	}
	t.Errorf("a rule for the directory of the plugin is granted: %v", a.Granted)
}
