package shell_test

import (
	"testing"

	"symbio/internal/security/permission/shell"
)

// Only what is a quoted document and nothing else counts as text; of anything near it the value is not known.
func TestQuotedDocumentIsText(t *testing.T) {
	for text, want := range map[string]string{
		"git commit -m \"$(cat <<'EOF'\na\n\tb $x\n\nEOF\n)\"": "a\n\tb $x",
		"git commit -m \"$(cat <<\"EOF\"\na `b`\nEOF\n)\"":     "a `b`",
		"git commit -m \"$(cat <<\\EOF\na \\$b\nEOF\n)\"":      "a \\$b",
	} {
		p := shell.Parse(text)
		if len(p.Commands) != 1 || p.Hard() != "" {
			t.Errorf("%q: %d commands, %s", text, len(p.Commands), p.Hard())
			continue
		}
		if w := p.Commands[0].Words[3]; w.Dynamic || w.Text != want {
			t.Errorf("%q: got %+v, want %q", text, w, want)
		}
	}
	for about, argument := range map[string]string{
		"not quoted":           "\"$(cat <<EOF\na\nEOF\n)\"",
		"not in quotes itself": "$(cat <<'EOF'\na\nEOF\n)",
		"text beside it":       "\"x$(cat <<'EOF'\na\nEOF\n)\"",
		"a word beside it":     "\"$(cat <<'EOF'\na\nEOF\n)\"x",
		"in the background":    "\"$(cat <<'EOF' &\na\nEOF\n)\"",
		"negated":              "\"$(! cat <<'EOF'\na\nEOF\n)\"",
		"a variable":           "\"$(x=y cat <<'EOF'\na\nEOF\n)\"",
		"an argument":          "\"$(cat - <<'EOF'\na\nEOF\n)\"",
		"another program":      "\"$(tac <<'EOF'\na\nEOF\n)\"",
		"another redirection":  "\"$(cat <<'EOF' 2>/dev/null\na\nEOF\n)\"",
		"another descriptor":   "\"$(cat 3<<'EOF'\na\nEOF\n)\"",
		"another command":      "\"$(cat <<'EOF'\na\nEOF\ncat)\"",
		"a here-string":        "\"$(cat <<<'a')\"",
	} {
		p := shell.Parse("git commit -m " + argument)
		if len(p.Commands) < 2 {
			t.Errorf("%s: the command in it is not seen: %+v", about, p.Commands)
			continue
		}
		for _, c := range p.Commands {
			if c.Words[0].Text == "git" && !c.Words[3].Dynamic {
				t.Errorf("%s: %+v counts as text", about, c.Words[3])
			}
		}
	}
}
