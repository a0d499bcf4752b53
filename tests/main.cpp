// The entry point of every test executable: Boost.Test provides main(), the folder name is the module.
#define BOOST_TEST_MODULE tandem
#include <boost/test/unit_test.hpp>
