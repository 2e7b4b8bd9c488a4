/* cmocka_base.h: cmocka with the headers that it wants to see first. */
#ifndef MICA_TESTS_CMOCKA_BASE_H
#define MICA_TESTS_CMOCKA_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
