//go:build !unix

package private_test

import "errors"

func pipe(string) error { return errors.New("there are none") }
