package nodelog

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestLogHasNoSecrets(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutSecrets}))
	log.Warn("call failed", "why", "PASSWORD=hunter2 was refused", "err", errors.New("Authorization: Bearer abcdef0123456789"), "member", "kitchen")
	if got := out.String(); strings.Contains(got, "hunter2") || strings.Contains(got, "abcdef0123456789") || !strings.Contains(got, "member=kitchen") || !strings.Contains(got, "level=WARN") {
		t.Errorf("logged %q; want it without the secrets", got)
	}
}

func TestRedactedLinesHaveNoSecretsAndAreUTF8(t *testing.T) {
	var out strings.Builder
	l := slog.New(Redact(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), slog.LevelInfo))
	const secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
	l.Debug("not shown")
	l.With("key", "api_key="+secret).WithGroup("g").Info("api_key="+secret, slog.Group("in", slog.String("a", "api_key="+secret)), "err", errors.New("api_key="+secret), "bad", "a\xffb", "n", 7)
	text := out.String()
	if strings.Contains(text, secret) || strings.Contains(text, "not shown") {
		t.Errorf("the log has a secret, or a line below its level:\n%s", text)
	}
	for _, want := range []string{`"bad":"a?b"`, `"n":7`, `"in":{"a":`, `"g":{`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log has no %s:\n%s", want, text)
		}
	}
}
