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
