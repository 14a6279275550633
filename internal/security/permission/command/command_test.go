package command_test

import (
	"testing"

	"symbio/internal/security/permission/command"
	"symbio/internal/security/permission/shell"
)

func one(t *testing.T, text string) *shell.Command {
	t.Helper()
	p := shell.Parse(text)
	if len(p.Commands) != 1 {
		t.Fatalf("%q has %d commands, want 1", text, len(p.Commands))
	}
	return &p.Commands[0]
}

func TestPatternMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, command string
		whole, dashed    bool
		n                int
		ok               bool
	}{
		{"git log", "git log -1", false, false, 2, true},
		{"git log", "git log -1", true, false, 0, false},
		{"git log", `g\it 'log'`, true, false, 2, true},
		{"git", "git-lfs pull", false, true, 1, true},
		{"git", "git-lfs pull", false, false, 0, false},
		{"git log", "git $VERB", false, false, 0, false},
		{"LANG=C sort", "sort", true, false, 0, false},
		{"a | b", "a", false, false, 0, false}, // no simple command: it matches nothing
	} {
		p := command.Parse(c.pattern, "", false)
		if n, ok := p.Match(one(t, c.command), c.whole, c.dashed); n != c.n || ok != c.ok {
			t.Errorf("%q matches %q: %d, %t, want %d, %t", c.pattern, c.command, n, ok, c.n, c.ok)
		}
	}
}

func TestPatternIsOneCommandOfLiteralWords(t *testing.T) {
	for text, want := range map[string]bool{
		"git log": true, "timeout 5 make": true, "LANG=C sort": true,
		"": false, "''": false, "a; b": false, "a | b": false, "a > b": false, "a < b": false, "a $x": false, "a *": false, "a $(b)": false, "if": false, "a\x00": false,
	} {
		if got := command.Parse(text, "", false).First != ""; got != want {
			t.Errorf("%q is a pattern: %t, want %t", text, got, want)
		}
	}
}

func TestPatternMayMean(t *testing.T) {
	for _, c := range []struct {
		pattern, command string
		want             shell.Certainty
	}{
		{"rm -rf", "/bin/rm --force -r x", shell.Yes},
		{"rm -rf", "rm -f x", shell.No},
		{"rm -rf", "rm $OPTIONS x", shell.Maybe},
		{"git push --force", "git -C x push origin +main", shell.Yes},
		{"git push", "git-push origin", shell.Yes},
		{"rm", "$PROGRAM x", shell.Maybe},
	} {
		p := command.Parse(c.pattern, "", false)
		if got := p.MayMean(one(t, c.command)); got != c.want {
			t.Errorf("%q may mean %q: %v, want %v", c.pattern, c.command, got, c.want)
		}
	}
	if got := command.TextMayMean("git * --force", one(t, "git push origin --force")); got != shell.Yes {
		t.Errorf("git * --force may mean git push origin --force: %v, want yes", got)
	}
}

func TestTextLooksIntoQuotes(t *testing.T) {
	text := `x=1; eval "su\do reboot"`
	if !command.Names(text, "sudo") || command.Names(text, "rm") || !command.Contains(text, "sudo*reboot") {
		t.Errorf("%s names sudo: %t, rm: %t; contains sudo*reboot: %t", text, command.Names(text, "sudo"), command.Names(text, "rm"), command.Contains(text, "sudo*reboot"))
	}
}
