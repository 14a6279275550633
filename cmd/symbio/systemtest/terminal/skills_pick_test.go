//go:build system && linux

package terminal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"symbio/cmd/symbio/symbiotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func skillsHome(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir, state := t.TempDir(), symbiotest.ShortDir(t)
	for path, text := range map[string]string{
		"project/.git/x":                        "",
		"project/.agents/skills/alpha/SKILL.md": "---\nname: alpha\ndescription: Writes changelogs.\n---\n",
		"project/.agents/skills/beta/SKILL.md":  "---\nname: beta\ndescription: \"Looks \\e[31mred\\e[0m.\"\n---\n",
		".agents/skills/mine/SKILL.md":          "---\nname: mine\ndescription: 日本語の説明がここにあります、とても長いので切られるはずです、本当に。\n---\n",
		".agents/skills/fixed/SKILL.md":         "---\nname: fixed\ndescription: Off by the configuration.\n---\n",
		".config/symbio/symbio.yaml":            "skills: {disabled: [fixed]}\n",
	} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "project"), append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+filepath.Join(dir, ".config"), "TERM=xterm", "NO_COLOR=1")
}

func TestPickerSwitchesSkillsOff(t *testing.T) {
	t.Parallel()
	dir, env := skillsHome(t)
	s := symbiotest.InTerminal(t, dir, env, "skills")
	s.Has("> [x]  alpha", "[x]  beta", "[x]  mine", "[ ]  fixed", "5 of 5")
	s.Types("be")
	s.Has("Skills: be_", "> [x]  beta", "!alpha", "1 of 5")
	s.Types(" ")
	s.Has("> [ ]* beta", "1 changed")
	s.Types("\x1b")
	s.Has("Skills: _", "> [x]  alpha", "[ ]* beta")
	s.Types("\t\t") // project, then user
	s.Has("2 of 5, user", "> [ ]  fixed")
	s.Types(" ")
	s.Has("stays off: skills.disabled, ", "> [ ]  fixed")
	s.Types("\x1b[B ")
	picture := s.Has("> [ ]* mine")
	for _, line := range strings.Split(picture, "\n") {
		line = strings.TrimRight(line, " ")
		wide := strings.Count(line, "日本語の説明が") * len([]rune("日本語の説明が")) // at least; these take two columns
		if len([]rune(line))+wide >= 70 {
			t.Errorf("a line is wider than the terminal: %q", line)
		}
	}
	if strings.Contains(picture, "\x1b") {
		t.Errorf("what a skill says moves the cursor: %q", picture)
	}
	s.Types("\r")
	after, err := s.Ends()
	if err != nil || !strings.Contains(after, "off\tbeta\t") || !strings.Contains(after, "off\tmine\t") || strings.Contains(after, "alpha") {
		t.Errorf("it ended with %v and said %q, want beta and mine off", err, after)
	}
	list := exec.Command("symbio", "skills", "list")
	list.Dir, list.Env = dir, env
	out, err := list.Output()
	if err != nil || !strings.Contains(string(out), "beta\tproject\toff\t") || !strings.Contains(string(out), "alpha\tproject\tenabled\t") {
		t.Errorf("the list afterwards is %s, %v", out, err)
	}
}

func TestPickerSwitchesOnSkillByName(t *testing.T) {
	t.Parallel()
	dir, env := skillsHome(t)
	run := func(args ...string) string {
		cmd := exec.Command("symbio", args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	run("skills", "disable", "alpha")
	s := symbiotest.InTerminal(t, dir, env, "skills", "enable")
	s.Has("> [ ]  alpha")
	s.Types(" \x0e ") // and beta off
	s.Has("[x]* alpha", "> [ ]* beta")
	s.Types("\r")
	if after, err := s.Ends(); err != nil || !strings.Contains(after, "on\talpha\t") || !strings.Contains(after, "off\tbeta\t") {
		t.Errorf("it ended with %v and said %q, want alpha on and beta off", err, after)
	}
	if out := run("skills", "list"); !strings.Contains(out, "alpha\tproject\tenabled\t") {
		t.Errorf("the list afterwards is %s", out)
	}
}

func TestPickerCancelChangesNothing(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*symbiotest.Screen){
		"by key":    func(s *symbiotest.Screen) { s.Types("\x03") },
		"by signal": func(s *symbiotest.Screen) { s.Cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, env := skillsHome(t)
			s := symbiotest.InTerminal(t, dir, env, "skills", "disable")
			s.Has("> [x]  alpha")
			raw := s.Settings()
			s.Types(" ")
			s.Has("> [ ]* alpha")
			leave(s)
			after, err := s.Ends()
			if name == "by key" && (err != nil || !strings.Contains(after, "Nothing changed.")) {
				t.Errorf("it ended with %v and said %q", err, after)
			}
			now := s.Settings()
			if cmp.Equal(raw, now) || now.Lflag&unix.ECHO == 0 || now.Lflag&unix.ICANON == 0 {
				t.Errorf("the terminal is left raw: %+v", now)
			}
			list := exec.Command("symbio", "skills", "list")
			list.Dir, list.Env = dir, env
			if out, err := list.Output(); err != nil || !strings.Contains(string(out), "alpha\tproject\tenabled\t") {
				t.Errorf("the list afterwards is %s, %v", out, err)
			}
		})
	}
}

func TestPickerFollowsWindow(t *testing.T) {
	t.Parallel()
	dir, env := skillsHome(t)
	s := symbiotest.InTerminal(t, dir, env, "skills")
	s.Has("alpha", "mine")
	raw, err := s.Person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if ctl := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 6, Col: 30})
	}); ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	s.Mu.Lock()
	s.Glass.Resize(30, 6)
	s.Mu.Unlock()
	s.Cmd.Process.Signal(syscall.SIGWINCH) // the kernel sends it to the group that a terminal controls, which this is not
	s.Has("alpha", "beta", "!mine")
	s.Types("\x1b[B\x1b[B\x1b[B")
	s.Has("> [x]  mine", "!alpha")
	s.Types("\x03")
	if _, err := s.Ends(); err != nil {
		t.Error(err)
	}
}
