package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
)

var release = flag.String("release", "", "the directory to which TestManualAndCompletions writes them, for .release/build")

// roff escapes a text for a page of the manual.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// manualPage returns the page of a command: what its --help prints, which is wrapped by hand, in the sections of a manual.
func manualPage(c *cobra.Command, date time.Time) []byte {
	var b bytes.Buffer
	name := func(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, strings.TrimPrefix(roff.Replace("\n"+text), "\n"))
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 %s symbio symbio\n.SH NAME\n%s \\- %s\n", roff.Replace(strings.ToUpper(name(c))), date.Format(time.DateOnly),
		roff.Replace(name(c)), roff.Replace(c.Short))
	synopsis := []string{c.CommandPath() + " COMMAND"}
	if c.Runnable() {
		synopsis[0] = c.UseLine()
	}
	section("SYNOPSIS", synopsis[0])
	section("DESCRIPTION", c.Long)
	section("OPTIONS", c.NonInheritedFlags().FlagUsagesWrapped(helpColumns))
	section("OPTIONS OF ALL COMMANDS", c.InheritedFlags().FlagUsagesWrapped(helpColumns))
	section("EXAMPLES", c.Example)
	var also []string
	if c.HasParent() {
		also = append(also, name(c.Parent())+"(1)")
	}
	for _, below := range c.Commands() {
		if below.IsAvailableCommand() {
			also = append(also, name(below)+"(1)")
		}
	}
	section("SEE ALSO", strings.Join(also, ",\n"))
	return b.Bytes()
}

// The pages of the manual and the completions of shells are made of the commands: .release/build has this test write them.
func TestManualAndCompletions(t *testing.T) {
	dir, date := *release, time.Unix(0, 0).UTC()
	if dir == "" {
		dir = t.TempDir()
	} else if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err != nil {
		t.Fatal(err)
	} else {
		date = time.Unix(epoch, 0).UTC()
	}
	write := func(name string, text []byte) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages := 0
	eachHelp(t, func(c *cobra.Command, help string) {
		for above := c; above.HasParent(); above = above.Parent() {
			if !above.IsAvailableCommand() {
				return
			}
		}
		pages++
		page := manualPage(c, date)
		write("man/man1/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1", page)
		man, err := exec.LookPath("man")
		if err != nil || pages > 3 { // some are enough, a process each
			return
		}
		cmd := exec.Command(man, "--warnings", "-l", "-")
		cmd.Stdin, cmd.Env = bytes.NewReader(page), append(os.Environ(), "MANWIDTH=200", "LC_ALL=C.UTF-8", "MAN_KEEP_FORMATTING=")
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		shown, err := cmd.Output()
		if err != nil || complaints.Len() > 0 {
			t.Errorf("the page of %s: %v\n%s", c.CommandPath(), err, complaints.Bytes())
		}
		text := strings.Join(strings.Fields(string(shown)), " ")
		for line := range strings.Lines(c.Short + "\n" + c.Long + "\n" + c.Example) {
			if line = strings.Join(strings.Fields(line), " "); !strings.Contains(text, line) {
				t.Errorf("the page of %s does not show %q:\n%s", c.CommandPath(), line, shown)
			}
		}
	})
	if pages < 50 {
		t.Errorf("%d pages, want 50 and more", pages)
	}
	for shell, file := range map[string]string{"bash": "completions/bash/symbio", "zsh": "completions/zsh/_symbio", "fish": "completions/fish/symbio.fish"} {
		var script bytes.Buffer
		root := root(command.NewEnv())
		root.SetOut(&script)
		root.SetArgs([]string{"completion", shell})
		err := root.GenFishCompletion(&script, true) // cobra's own command for it writes to the standard output
		if shell != "fish" {
			script.Reset()
			err = root.Execute()
		}
		if err != nil || !strings.Contains(script.String(), "__complete") {
			t.Errorf("completion %s: %v\n%s", shell, err, script.Bytes())
		}
		write(file, script.Bytes())
	}
}
