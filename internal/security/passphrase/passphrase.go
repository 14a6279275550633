// Package passphrase encrypts data with a passphrase, in the age format (age-encryption.org/v1,
// scrypt), so that the program age opens it, too.
//
// Guarantees: data that was changed or cut off is an error when it is read, before its end is
// reported. Two files with one passphrase share nothing. A file that asks for more work than this
// package uses is refused, so that opening one takes about a second and 256 MiB of memory at most.
//
// It does not judge how hard a passphrase is to guess.
package passphrase

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
)

// ErrWrong means that a passphrase does not open the data, or that the start of it was changed.
var ErrWrong = errors.New("the passphrase is wrong")

// work is the logarithm of the scrypt work factor, age's own default: 256 MiB and about a second
// for each guess.
const work = 18

// header is the first line of all data in the age format.
const header = "age-encryption.org/v1\n"

// HeaderSize is how many bytes Encrypted needs.
const HeaderSize = len(header)

// Encrypted reports whether data that begins with start is in the age format.
func Encrypted(start []byte) bool { return bytes.HasPrefix(start, []byte(header)) }

// Encrypt returns a writer that encrypts to w. Its Close writes the end, without which the data
// cannot be read, and leaves w open. An empty passphrase is an error.
func Encrypt(w io.Writer, passphrase string) (io.WriteCloser, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, err
	}
	to.SetWorkFactor(work)
	return age.Encrypt(w, to)
}

// Decrypt returns a reader of the data that r has encrypted. It returns ErrWrong if the passphrase
// does not fit. The reader returns an error where the data was changed, or ends too early.
func Decrypt(r io.Reader, passphrase string) (io.Reader, error) {
	as, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	as.SetMaxWorkFactor(work)
	plain, err := age.Decrypt(r, as)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, ErrWrong
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return plain, nil
}
