!pip install pandas
