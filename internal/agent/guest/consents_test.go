package guest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/acp-go-sdk"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// run runs a command by the client, and says how it ended.
func (p *program) run(ctx context.Context, command string) string {
	r, err := p.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: "s1", Command: command})
	if err != nil {
		return err.Error()
	}
	w, err := p.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: "s1", TerminalId: r.TerminalId})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint("exit ", *w.ExitCode)
}

func (p *program) write(ctx context.Context, path, content string) {
	_, _ = p.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: "s1", Path: path, Content: content})
}

// A person who has said yes when the program asked is not asked again for exactly that, and for anything else is.
func TestOneQuestionForOneAction(t *testing.T) {
	bash := func(command string) map[string]any { return map[string]any{"command": command} }
	for name, test := range map[string]struct {
		do    func(p *program, ctx context.Context)
		asked int
		files string // a.txt afterwards
	}{
		"command": {asked: 1, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "execute", "it", bash("npm run build"))
			p.run(ctx, "npm run build")
		}},
		"another command": {asked: 2, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "execute", "it", bash("npm run build"))
			p.run(ctx, "npm run deploy")
		}},
		"command twice": {asked: 2, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "execute", "it", bash("npm run build"))
			p.run(ctx, "npm run build")
			p.run(ctx, "npm run build")
		}},
		"command without a question": {asked: 1, do: func(p *program, ctx context.Context) { p.run(ctx, "npm run build") }},
		"denied command":             {asked: 0, do: func(p *program, ctx context.Context) { p.ask(ctx, "execute", "it", bash("rm x")); p.run(ctx, "rm x") }},
		"file as shown": {asked: 1, files: "one\nTWO\nthree\n", do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("a.txt", "TWO", "two"))
			p.write(ctx, "a.txt", "one\nTWO\nthree\n")
		}},
		"file with its whole text": {asked: 1, files: "new\n", do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("a.txt", "new\n", "one\ntwo\nthree\n"))
			p.write(ctx, "a.txt", "new\n")
		}},
		"more than was shown": {asked: 2, files: "one\nTWO\nthree\nfour\n", do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("a.txt", "TWO", "two"))
			p.write(ctx, "a.txt", "one\nTWO\nthree\nfour\n")
		}},
		"a place that was not shown": {asked: 2, files: "on3\ntwo\nthree\n", do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("a.txt", "3", "e"))
			p.write(ctx, "a.txt", "on3\ntwo\nthree\n")
		}},
		"a file that was shown as a new one": {asked: 2, files: "new\n", do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("a.txt", "new\n"))
			p.write(ctx, "a.txt", "new\n")
		}},
		"a change that cannot be shown": {asked: 2, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("b.txt", "\x00new\n"))
			p.write(ctx, "b.txt", "\x00new\n")
		}},
		"a change that is too long to be shown": {asked: 2, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("b.txt", strings.Repeat("new\n", 20_000)))
			p.write(ctx, "b.txt", strings.Repeat("new\n", 20_000))
		}},
		"a new file": {asked: 1, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("b.txt", "new\n"))
			p.write(ctx, "b.txt", "new\n")
		}},
		"another file": {asked: 2, do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("b.txt", "new\n"))
			p.write(ctx, "c.txt", "new\n")
		}},
		"two changes of one file": {asked: 3, files: "new\n", do: func(p *program, ctx context.Context) {
			p.ask(ctx, "edit", "it", nil, acp.ToolDiffContent("a.txt", "x", "one"), acp.ToolDiffContent("a.txt", "new\n", "one\ntwo\nthree\n"))
			p.write(ctx, "a.txt", "new\n")
			p.write(ctx, "b.txt", "new\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &program{do: func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
				test.do(p, ctx)
				p.say(ctx, "done")
				return end, nil
			}}
			at := newPlace(t, permission.Config{Preset: "none", Allow: permission.Rules("Read(./*)"), FinalDeny: permission.Rules("Bash(rm:*)")}, p, others(t)...)
			at.answer = tool.Answer{Allow: true, By: "terminal"}
			if err := os.WriteFile(filepath.Join(at.dir, "a.txt"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := at.Send(t.Context(), "go"); err != nil {
				t.Fatal(err)
			}
			var questions []string
			for _, d := range at.asked {
				questions = append(questions, fmt.Sprint(d.Tool, d.Args))
			}
			if len(questions) != test.asked {
				t.Errorf("asked %d times, want %d:\n%s", len(questions), test.asked, strings.Join(questions, "\n"))
			}
			if text, err := os.ReadFile(filepath.Join(at.dir, "a.txt")); err != nil || test.files != "" && string(text) != test.files {
				t.Errorf("a.txt holds %q, %v, want %q", text, err, test.files)
			}
		})
	}
}

// A yes is of one prompt, and a no allows nothing.
func TestAnswerDoesNotOutliveItsPrompt(t *testing.T) {
	p := &program{do: func(p *program, ctx context.Context, text string) (acp.PromptResponse, error) {
		if strings.HasSuffix(text, "ask") {
			p.ask(ctx, "execute", "it", map[string]any{"command": "npm run build"})
		} else {
			p.run(ctx, "npm run build")
		}
		p.say(ctx, "done")
		return end, nil
	}}
	at := newPlace(t, permission.Config{Preset: "none"}, p, others(t)...)
	at.answer = tool.Answer{Allow: true, By: "terminal"}
	for _, task := range []string{"ask", "run"} {
		if _, err := at.Send(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	if len(at.asked) != 2 {
		t.Errorf("asked %d times, want for each prompt", len(at.asked))
	}
	p.do = func(p *program, ctx context.Context, _ string) (acp.PromptResponse, error) {
		p.ask(ctx, "execute", "it", map[string]any{"command": "npm run build"})
		p.run(ctx, "npm run build")
		p.say(ctx, "done")
		return end, nil
	}
	at.asked, at.answer, at.results = nil, tool.Answer{By: "terminal"}, []llm.ToolResult{}
	if _, err := at.Send(t.Context(), "both"); err != nil {
		t.Fatal(err)
	}
	if len(at.asked) != 2 || !at.results[1].IsError {
		t.Errorf("asked %d times after a no, results %+v", len(at.asked), at.results)
	}
}
