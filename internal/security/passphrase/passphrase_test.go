package passphrase_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"symbio/internal/security/passphrase"
)

// sealed returns text, encrypted with a passphrase.
func sealed(t *testing.T, text, secret string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := passphrase.Encrypt(&out, secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestOnlyThePassphraseOpensTheWholeText(t *testing.T) {
	text := strings.Repeat("a secret ", 20_000) // more than two chunks of the format
	data := sealed(t, text, "correct horse")
	if !passphrase.Encrypted(data[:passphrase.HeaderSize]) || bytes.Contains(data, []byte("secret")) {
		t.Errorf("it is not encrypted: %.40q", data)
	}
	open := func(data []byte, secret string) (string, error) {
		r, err := passphrase.Decrypt(bytes.NewReader(data), secret)
		if err != nil {
			return "", err
		}
		got, err := io.ReadAll(r)
		return string(got), err
	}
	if got, err := open(data, "correct horse"); err != nil || got != text {
		t.Errorf("opened %d bytes, %v; want %d", len(got), err, len(text))
	}
	if _, err := open(data, "wrong horse"); !errors.Is(err, passphrase.ErrWrong) {
		t.Errorf("with another passphrase: %v", err)
	}
	if _, err := open(data[:len(data)-100], "correct horse"); err == nil {
		t.Error("the end was cut off, and there was no error")
	}
	data[len(data)-100] ^= 1
	if _, err := open(data, "correct horse"); err == nil {
		t.Error("a bit was changed, and there was no error")
	}
	more := bytes.Replace(data, []byte(" 18\n"), []byte(" 22\n"), 1)
	if _, err := open(more, "correct horse"); err == nil || errors.Is(err, passphrase.ErrWrong) {
		t.Errorf("with more work than is allowed: %v", err)
	}
}

func TestEmptyPassphraseIsRefused(t *testing.T) {
	if _, err := passphrase.Encrypt(io.Discard, ""); err == nil {
		t.Error("an empty passphrase was accepted")
	}
}
