//go:build system && linux

package guests_test

import (
	"os/exec"
	"strings"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

// A person at the desk talks to OpenCode in the kitchen, says something to it while it works, ends its task with Ctrl-C, and goes on.
func TestChatWithAGuestOfAnotherMachine(t *testing.T) {
	bin := programs(t)
	symbiotest.OnASwitch(t, func(t *testing.T) {
		desk, kitchen := newMachines(t, bin)
		cmd := desk.symbio("chat", "--on", "kitchen", "--agent", "opencode")
		cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=1")
		chat := symbiotest.OnScreen(t, cmd)
		chat.Has("works on node kitchen")
		chat.Types("hello there\r")
		chat.Sees(1, "I saw: hello there")
		chat.Answers(1)

		chat.Types("CALL bash {\"command\":\"sleep 98713\",\"description\":\"wait\"}\r")
		t.Log(chat.Has("● GuestStep bash"))
		sleeps := func() bool { return exec.Command("pgrep", "-x", "-f", "sleep 98713").Run() == nil }
		symbiotest.AwaitProgram(t, "the program works", sleeps)
		chat.Types("water the roses\r")
		kitchen.node.Expect(t, "the remark has come", func(l symbiotest.Line) bool { return l.Type == "decision" && strings.Contains(l.Why, "agents.steer") })
		chat.Types("\x03")
		chat.Answers(2)
		symbiotest.AwaitProgram(t, "the program has stopped", func() bool { return !sleeps() })

		chat.Types("and now\r") // behind the remark, which comes back as a draft
		chat.Sees(1, "I saw: and now")
		t.Log(chat.Scrolled())
	})
}
