package exec

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"symbio/agent/node/config"
	"symbio/community"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// site is a machine on which a node could run.
type site struct {
	config           config.Config
	home, dir, state string
}

func (s site) runner() *Runner {
	return New(Config{Sandbox: s.config.Sandbox, Dir: s.dir, Home: s.home, Hide: []string{filepath.Join(s.state, "nodes")}, Temp: filepath.Join(s.state, "tmp"), Denied: func() *permission.FileDenials {
		rules, _ := s.config.Permissions.Policy()
		return rules.Denied(s.dir)
	}})
}

func (s site) command(t *testing.T, c config.Capability) *Command {
	t.Helper()
	run, err := s.runner().Command(c)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// held is what holds a command; an error when nothing can.
func held(c *Command) (*sandbox.Box, error) {
	policy, err := c.policy(nil, "")
	if err != nil {
		return nil, err
	}
	box, err := c.runner.Box(c.sandbox, false)
	if err == nil {
		err = box.Check(policy)
	}
	return box, err
}

// boxed is a capability's command as a node with the default configuration has it, in a workspace of its own.
func boxed(t *testing.T, c config.Capability) *Command {
	t.Helper()
	run := site{config.Default(), t.TempDir(), t.TempDir(), t.TempDir()}.command(t, c)
	if _, err := held(run); err != nil {
		t.Skipf("this machine cannot hold a command: %v", err)
	}
	return run
}

func sh(t *testing.T, script string) config.Capability {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh on this machine")
	}
	return config.Capability{Name: "x", Exec: []string{"sh", "-c", script}}
}

func TestCommandAnswersJSONWithJSON(t *testing.T) {
	got, err := boxed(t, sh(t, `read x; echo "{\"got\": $x}"`)).Answer(t.Context(), []byte(`"hi"`+"\n"), "")
	if want := `{"got": "hi"}`; err != nil || string(got) != want {
		t.Errorf("answer = %s, %v; want %s", got, err, want)
	}
}

func TestCommandAnswersAsMuchAsItsNodeAllows(t *testing.T) {
	c := boxed(t, sh(t, `printf '"'; head -c 3000000 /dev/zero | tr '\0' x; printf '"'`))
	c.runner.cfg.MaxOutput = 4 << 20
	if got, err := c.Answer(t.Context(), nil, ""); err != nil || len(got) != 3_000_002 {
		t.Errorf("answer of %d bytes, %v; want 3000002", len(got), err)
	}
	c.runner.cfg.MaxOutput = 2 << 20
	if _, err := c.Answer(t.Context(), nil, ""); !errors.Is(err, community.ErrTooLarge) || !strings.Contains(err.Error(), "more than 2048 KiB") {
		t.Errorf("error = %v, want too large", err)
	}
}

func TestCommandGetsNoKeysOfThisProcess(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	got, err := boxed(t, sh(t, `echo "\"$OPENAI_API_KEY\""`)).Answer(t.Context(), nil, "")
	if err != nil || string(got) != `""` {
		t.Errorf("the command sees %s, %v; want nothing", got, err)
	}
}

func TestCommandThatFailsSaysHowAndWhy(t *testing.T) {
	for name, test := range map[string]struct {
		c     config.Capability
		input string
		want  error
		words string
	}{
		"status":     {sh(t, "echo to standard output; echo no such table: users >&2; exit 3"), "1", community.ErrAgentFailed, "exit status 3: no such table: users"},
		"no JSON":    {sh(t, "echo hello"), "1", community.ErrAgentFailed, "did not print JSON"},
		"too much":   {sh(t, "head -c 2000000 /dev/zero"), "1", community.ErrTooLarge, "more than 1024 KiB"},
		"bad input":  {sh(t, "cat"), "{", community.ErrInvalid, "not JSON"},
		"deep":       {sh(t, "cat"), strings.Repeat("[", 65) + strings.Repeat("]", 65), community.ErrInvalid, "more than 64 deep"},
		"two values": {sh(t, "echo 1 2"), "1", community.ErrAgentFailed, "did not print JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := boxed(t, test.c).Answer(t.Context(), []byte(test.input), "")
			said := community.Explanation(err)
			if !errors.Is(err, test.want) || !strings.Contains(said, test.words) {
				t.Errorf("error = %v, told to the caller %q; want %v with %q", err, said, test.want, test.words)
			}
		})
	}
}

func TestCommandEndsWithItsCallAndItsChildrenWithIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := boxed(t, sh(t, "sleep 86400 & sleep 86400")).Answer(ctx, []byte("1"), "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the deadline", err)
	}
	c := sh(t, "sleep 86400")
	c.Timeout = 100 * time.Millisecond
	if _, err := boxed(t, c).Answer(t.Context(), []byte("1"), ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the capability's own time-out", err)
	}
}

func TestCommandMayPrintText(t *testing.T) {
	c := sh(t, `printf 'two\nlines \377\n\n'`)
	c.Text = true
	if got, err := boxed(t, c).Answer(t.Context(), nil, ""); err != nil || string(got) != `"two\nlines `+"\ufffd"+`"` {
		t.Errorf("answer = %s, %v", got, err)
	}
}

func TestProgramThatDoesNotExistIsAnErrorOfTheStart(t *testing.T) {
	for _, name := range []string{"/no/such/program", "no-such-program"} {
		run := site{config.Default(), t.TempDir(), t.TempDir(), t.TempDir()}
		if _, err := run.runner().Command(config.Capability{Name: "x", Exec: []string{name}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
