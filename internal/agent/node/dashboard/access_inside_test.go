package dashboard

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSecretsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := &secrets{max: maxTokens, life: tokenLife}
		token := tokens.create("")
		if tokens.find(token+"x", true) != nil || tokens.find("", true) != nil {
			t.Error("a wrong token is accepted")
		}
		if tokens.find(token, true) == nil || tokens.find(token, true) != nil {
			t.Error("a token must be good once")
		}
		token = tokens.create("")
		time.Sleep(tokenLife + time.Second)
		if tokens.find(token, true) != nil {
			t.Error("a token is good after two minutes")
		}
		sessions := &secrets{max: maxSessions, life: sessionIdle}
		session := sessions.create(" from here")
		for range 3 {
			time.Sleep(sessionIdle - time.Minute)
			if s := sessions.find(session, false); s == nil || !strings.HasSuffix(s.by, " from here") {
				t.Fatalf("a session that is used ends: %+v", s)
			}
		}
		time.Sleep(sessionIdle + time.Second)
		if sessions.find(session, false) != nil {
			t.Error("a session is good after twelve idle hours")
		}
	})
}

func TestOldestSessionEndsWhenThereAreTooMany(t *testing.T) {
	s := &secrets{max: maxSessions, life: sessionIdle}
	first, second := s.create(""), s.create("")
	for range maxSessions - 2 {
		s.create("")
	}
	if s.find(first, false) == nil { // now it was used last
		t.Fatal("a session is gone too early")
	}
	s.create("")
	if s.find(first, false) == nil || s.find(second, false) != nil {
		t.Error("the session that was used least recently must end")
	}
	for _, one := range s.all {
		if strings.Contains(fmt.Sprintf("%+v", *one), first) {
			t.Error("a secret is kept")
		}
	}
}

// deadWriter is the connection to a browser that does not read: a write blocks until its deadline.
type deadWriter struct {
	http.ResponseWriter
	deadline time.Time
}

func (w *deadWriter) SetWriteDeadline(at time.Time) error { w.deadline = at; return nil }

func (w *deadWriter) Write([]byte) (int, error) {
	time.Sleep(time.Until(w.deadline))
	return 0, os.ErrDeadlineExceeded
}

func TestBrowserThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := &deadWriter{}, time.Now()
		if err := (sender{w, http.NewResponseController(w)}).send([]byte("x")); err == nil || time.Since(began) != writeTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestDiffLinesHaveTheirClass(t *testing.T) {
	got := ""
	for _, l := range diffLines("--- a\n+++ a\n@@ -1 +1 @@\n same\n-old\n+new\n--- a removed comment\n") {
		got += l.Class + " "
	}
	if want := "hunk hunk hunk  removed added removed "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"a\tb\nc", "\x1b[31m\u202e\u200b\x00", "\xff\xfe", "ü 漢"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range string(printable([]byte(s))) {
			if r != '\n' && r != '\t' && (r < ' ' || r == 0x7f || r == 0x202e || r == 0x200b) {
				t.Fatalf("%q has %q", s, r)
			}
		}
	})
}
